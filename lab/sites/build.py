# SPDX-License-Identifier: Apache-2.0
"""Compiles the load in each way, and checks by its return addresses that it is that way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from lab.places import ROOT, WORKLOADS
from lab.sites.ways import Told, Variant, Way

SOURCES = WORKLOADS / "sites"
OUT = ROOT / "build" / "sites"
# C++17: with C++20, string::reserve is inlined into the program.
_FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-ffunction-sections")


class BuildError(RuntimeError):
    """The load cannot be compiled, or is not what it should be; one message."""


class LackError(BuildError):
    """This system has no means for the way; the row is left out."""


def built(way: Way, variant: Variant, is_next: bool = False) -> Path:
    """The program of a way, compiled and checked if it is not up to date. `is_next`: its next
    build, of the same name."""
    program = OUT / variant.name / ("next" if is_next else "") / way.name
    linker = folding_linker() if way.folds else ()
    sources = [SOURCES / "load.cc", SOURCES / "ways" / way.file]
    if not _is_newer(program, [*sources, SOURCES / "load.h", WORKLOADS / "load_program.h"]):
        defines = [*way.defines, *(["-DNEXT_BUILD"] if is_next else [])]
        _compile([*_FLAGS, *variant.flags, *defines, *linker, *map(str, sources)], program)
        if variant.stripped:
            _run(["strip", str(program)])
    if (told := seen(program)) != way.told:
        program.unlink()
        raise BuildError(f"{way.name}, {variant.name}: return addresses show {told}")
    return program


@cache
def folding_linker() -> tuple[str, ...]:
    """Flags of a linker with --icf=all. Raises LackError."""
    for name in ("gold", "lld"):
        if shutil.which(f"ld.{name}"):
            return (f"-fuse-ld={name}", "-Wl,--icf=all")
    raise LackError("no linker that folds functions; install: apt-get install binutils, or lld")


def seen(program: Path) -> Told:
    """What tells the two kinds apart when it runs. Raises BuildError."""
    environment = {**os.environ, "LD_PRELOAD": str(_witness())}
    words = [str(program), "--peak", "1", "--survivors", "128"]
    said = _run(words, environment).stderr
    try:
        return told(json.loads(said.splitlines()[-1])["stacks"])
    except (ValueError, KeyError, IndexError) as error:
        raise BuildError(f"{program}: the witness said {said[-200:]!r}") from error


def told(stacks: list[dict]) -> Told:
    """How the two most frequent stacks differ. Raises ValueError unless there are two.

    A frame is (module, offset of the return address, offset of its function).
    """
    often = sorted((s for s in stacks if s["count"] >= 1000), key=lambda s: s["count"])
    if len(often) != 2:
        raise ValueError(f"{len(often)} stacks allocate often, not 2")
    pairs = list(zip(*(s["frames"] for s in often), strict=False))
    shared = next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))
    if shared == len(pairs):
        raise ValueError("the stacks do not differ")
    a, b = pairs[shared]
    return Told(
        shared,
        one_function=(a[0], a[2]) == (b[0], b[2]),
        one_call=shared + 1 < len(pairs) and pairs[shared + 1][0] == pairs[shared + 1][1],
    )


def _witness() -> Path:
    library, source = OUT / "witness.so", SOURCES / "witness.cc"
    if not _is_newer(library, [source]):
        _compile(["-std=c++17", "-O2", "-fPIC", "-shared", str(source), "-ldl"], library)
    return library


def _is_newer(product: Path, sources: list[Path]) -> bool:
    if not product.exists():
        return False
    return product.stat().st_mtime > max(source.stat().st_mtime for source in sources)


def _compile(words: list[str], product: Path) -> None:
    product.parent.mkdir(parents=True, exist_ok=True)
    _run(["g++", *words, "-o", str(product)])


def _run(
    words: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"{words[0]} is not installed") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise BuildError(f"{' '.join(words[:2])} failed: {(errors or [done.stderr])[0].strip()}")
    return done

# SPDX-License-Identifier: Apache-2.0
"""Our own library, built by compilers that run under us: the same bytes as without us.

The reference is built once, without any preload, in the same folder: objects hold its path.
"""

import hashlib
import json
import os
import subprocess
from pathlib import Path

from harness import debian
from harness.suite import FAILED, PASSED, Command, Outcomes, Output, Suite, SuiteError
from harness.variant import ROOT

COMPILERS = {"gcc": "g++", "clang": "clang++-19"}
PRODUCTS = ("*.o", "libllamalloc.so", "libllamalloc.a")


def digests(build: Path) -> dict[str, str]:
    """SHA-256 of every object and library under `build`."""
    files = sorted(path for product in PRODUCTS for path in build.rglob(product))
    return {
        path.relative_to(build).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def build_words(build: Path) -> list[str]:
    make = f"ninja -C '{build}' clean && ninja -C '{build}' -j{os.cpu_count()}"
    return ["sh", "-c", f"{make} llamalloc llamalloc_static"]


def configure(build: Path, compiler: str) -> None:
    words = ["cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build)]
    words += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", f"-DCMAKE_CXX_COMPILER={compiler}"]
    words += ["-DCMAKE_C_COMPILER_LAUNCHER=", "-DCMAKE_CXX_COMPILER_LAUNCHER="]
    run_or_say(words)


def run_or_say(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SuiteError(f"{words[0]} failed: {(done.stderr or done.stdout)[-600:]}")


def sources() -> str:
    """A digest of what is compiled, so that a reference of other sources is not used."""
    digest = hashlib.sha256()
    for folder in ("src", "include", "contracts", "cmake"):
        for path in sorted(p for p in (ROOT / folder).rglob("*") if p.is_file()):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def keep_reference(folder: Path, name: str, now: str) -> None:
    """What the build in folder/name made, of the sources `now`, is what later ones must make."""
    (folder / "reference").mkdir(exist_ok=True)
    text = json.dumps({"sources": now, "digests": digests(folder / name)})
    (folder / "reference" / name).write_text(text)


def prepare(folder: Path) -> None:
    now = sources()
    for name, compiler in COMPILERS.items():
        build, record = folder / name, folder / "reference" / name
        if record.exists() and json.loads(record.read_text())["sources"] == now:
            continue
        configure(build, compiler)
        run_or_say(build_words(build))
        keep_reference(folder, name, now)


def parser(folder: Path, name: str):
    def parse(_: Output) -> Outcomes:
        """One test for each file of the reference: it is there, and it is the same."""
        wanted = json.loads((folder / "reference" / name).read_text())["digests"]
        made = digests(folder / name)
        same = {file: made.get(file) == digest for file, digest in wanted.items()}
        return {f"{name}: {file}": PASSED if good else FAILED for file, good in same.items()}

    return parse


def commands(folder: Path) -> list[Command]:
    return [
        Command(name, build_words(folder / name), parser(folder, name), seconds=1800)
        for name in COMPILERS
    ]


SUITE = Suite(
    what="llamalloc built by gcc and clang; every object compared with a build without us",
    version=lambda: f"gcc {debian.version('g++-12')}, clang {debian.version('clang-19')}",
    packages=("g++", "clang-19", "cmake", "ninja-build"),
    prepare=prepare,
    commands=commands,
    probes=(
        ("g++", "-fsyntax-only", "-xc++", "/dev/null"),
        ("clang++-19", "--version"),
        ("ninja", "--version"),
    ),
)

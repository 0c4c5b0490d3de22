# SPDX-License-Identifier: Apache-2.0
"""Calling contexts as people read them: demangled, and short."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterable


def demangled(names: Iterable[str]) -> dict[str, str]:
    """name -> readable name, by one call of c++filt; without it by the C++ runtime library, which
    names the parameters, too. Names stay as they are without both.
    """
    mangled = sorted({name for name in names if name.startswith("_Z")})
    program = shutil.which("c++filt")
    if not mangled:
        return {}
    if not program:
        return _by_runtime_library(mangled)
    done = subprocess.run(
        [program, "-p"], input="\n".join(mangled), capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    return dict(zip(mangled, lines, strict=True)) if len(lines) == len(mangled) else {}


def _by_runtime_library(mangled: list[str]) -> dict[str, str]:
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return {}
    demangle.restype = ctypes.c_void_p
    readable = {}
    for name in mangled:
        found = demangle(name.encode(), None, None, None)
        if found:
            readable[name] = ctypes.string_at(found).decode("utf-8", "replace")
            free(ctypes.c_void_p(found))
    return readable


def shortened(frames: tuple[str, ...], readable: dict[str, str], shown: int = 5) -> str:
    """The innermost frames, innermost first: `a < b < c < ...`."""
    names = [readable.get(name, name).lstrip("?") or "?" for name in frames]
    return " < ".join(names[:shown] + (["..."] if len(names) > shown else [])) or "(no stack)"

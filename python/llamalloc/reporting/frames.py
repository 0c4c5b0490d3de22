# SPDX-License-Identifier: Apache-2.0
"""Calling contexts as people read them: demangled where c++filt is installed, and short."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable


def demangled(names: Iterable[str]) -> dict[str, str]:
    """name -> readable name, by one call of c++filt; names stay as they are without it."""
    mangled = sorted({name for name in names if name.startswith("_Z")})
    program = shutil.which("c++filt")
    if not mangled or not program:
        return {}
    done = subprocess.run(
        [program, "-p"], input="\n".join(mangled), capture_output=True, text=True, check=False
    )
    lines = done.stdout.splitlines()
    return dict(zip(mangled, lines, strict=True)) if len(lines) == len(mangled) else {}


def shortened(frames: tuple[str, ...], readable: dict[str, str], shown: int = 5) -> str:
    """The innermost frames, innermost first: `a < b < c < ...`."""
    names = [readable.get(name, name).lstrip("?") or "?" for name in frames]
    return " < ".join(names[:shown] + (["..."] if len(names) > shown else [])) or "(no stack)"

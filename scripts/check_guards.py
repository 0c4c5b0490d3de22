#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where a field is used without the lock that guards it, as clang's analysis sees it.

Compiles the sources of the rooms below with -Wthread-safety and no output. Which lock guards what,
and which locks a function needs, is said in the headers (src/base/thread_annotations.h). A field of
type Lock without a GUARDED_BY beside it guards nothing that the analysis knows: a fault as well.

Usage: check_guards.py [ROOT]
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOMS = (
    "os",
    "pages",
    "heap",
    "profile",
    "placement",
    "release",
    "learning",
    "state_file",
    "engine",
    "runtime",
    "recorder",
    "telemetry",
)
COMPILER = "clang++-19"
FLAGS = (
    "-std=c++20",
    "-fsyntax-only",
    "-Wthread-safety",
    "-Werror",
    "-Isrc",
    "-Iinclude",
    "-I.",
    '-DLLAMALLOC_VERSION="0"',
)
TWIN = re.compile(r"_(test|bench|fuzz)\.cc$")
LOCK_FIELD = re.compile(r"^\s*(?:mutable )?Lock \w+\{LockRank::", re.MULTILINE)
SAYS_WHAT = re.compile(r"(GUARDED_BY|WRITTEN_UNDER)\(")


def sources(root: Path) -> list[Path]:
    files = [f for room in ROOMS for f in sorted((root / "src" / room).rglob("*.cc"))]
    return [file for file in files if not TWIN.search(file.name)]


def compile_one(root: Path, file: Path) -> str:
    """What the compiler says of the file; empty if nothing."""
    command = [COMPILER, *FLAGS, str(file.relative_to(root))]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stderr


def unguarded(root: Path) -> list[str]:
    """Headers that have a lock and say of no field that it is guarded."""
    headers = (f for room in ROOMS for f in sorted((root / "src" / room).rglob("*.h")))
    texts = ((f.relative_to(root), f.read_text(encoding="utf-8")) for f in headers)
    return [
        f"{file}: has a lock, and no field is GUARDED_BY it\n"
        for file, text in texts
        if LOCK_FIELD.search(text) and not SAYS_WHAT.search(text)
    ]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        faults = [f for f in pool.map(lambda file: compile_one(root, file), sources(root)) if f]
    faults += unguarded(root)
    sys.stderr.write("".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

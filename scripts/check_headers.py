#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every header alone: each brings what it uses.

Headers under src/ and include/ as C++20 with the product's warnings; the public C header
include/llamalloc/llamalloc.h as C11 too.

Usage: check_headers.py [ROOT]
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CXX = ["g++", "-std=gnu++20", "-x", "c++", "-fno-exceptions", "-fno-rtti", "-Wundef"]
C = ["gcc", "-std=c11", "-x", "c", "-Wstrict-prototypes"]
TEST_HELPER = re.compile(r"(^|_)test(_|\.)")  # compiled with the tests' own flags
COMMON = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]


def commands(root: Path) -> list[tuple[Path, list[str]]]:
    """(header, compiler call) for every header, the public one twice."""
    paths = [f"-I{root / folder}" for folder in ("src", "include", ".")]
    found = []
    for header in sorted([*(root / "src").rglob("*.h"), *(root / "include").rglob("*.h")]):
        if TEST_HELPER.search(header.name):
            continue
        found.append((header, [*CXX, *COMMON, *paths, "-"]))
        if root / "include" in header.parents:
            found.append((header, [*C, *COMMON, *paths, "-"]))
    return found


def compile_alone(header: Path, command: list[str]) -> str | None:
    """The compiler's message, or None if `header` compiles."""
    source = f'#include "{header.resolve()}"\n'
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"{header}: does not compile alone:\n{done.stderr}"


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda pair: compile_alone(*pair), commands(root)))
    for fault in filter(None, results):
        print(fault, file=sys.stderr)
    return 1 if any(results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

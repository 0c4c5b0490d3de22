#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on text that does not belong in this repository.

Every source file that is not empty: one SPDX line among its first three; no line over 100 columns
(rows of .def tables excepted, and words that cannot be broken); at most 600 lines; no mark of
unfinished work, no code switched off; no path of the machine it was written on.
Documents and configuration: no such path. Generated and golden data are exempt (EXEMPT).

Usage: check_text.py [ROOT]   (ROOT need not be a git checkout)
"""

import re
import subprocess
import sys
from pathlib import Path

SPDX = "SPDX-License-Identifier: Apache-2.0"
SOURCES = {".c", ".cc", ".h", ".def", ".map", ".py", ".sh", ".cmake"}
SOURCE_NAMES = {"CMakeLists.txt", "Makefile", "run"}
DOCUMENTS = {".md", ".toml", ".json", ".yml", ".yaml", ".conf", ".txt"}
EXEMPT = ("contracts/golden/", "docs/img/", "LICENSE")
MAX_COLUMNS = 100
MAX_LINES = 600

# Written in two halves so that this file does not accuse itself.
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
SWITCHED_OFF = re.compile(r"^\s*#\s*if\s+" + r"0\b")
MACHINE_PATH = re.compile(r"(?<![\w.~$}/-])/(wor" + r"k|roo" + r"t|hom" + r"e)/\w")


def files_of(root: Path) -> list[Path]:
    """Files under `root`: what git tracks or would track, else all."""
    command = ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(command, capture_output=True, check=False)
    if listed.returncode == 0 and (root / ".git").exists():
        paths = [root / name for name in listed.stdout.decode().split("\0") if name]
    else:
        paths = sorted(root.rglob("*"))
    return [path for path in paths if path.is_file()]


def is_source(path: Path) -> bool:
    """Whether the rules of source text hold for `path`."""
    return path.suffix in SOURCES or path.name in SOURCE_NAMES


def check_source(name: str, lines: list[str]) -> list[str]:
    """Faults of one source file, each with its place."""
    faults = []
    if lines and not any(SPDX in line for line in lines[:3]):
        faults.append(f"{name}:1: no line `{SPDX}`")
    if len(lines) > MAX_LINES:
        faults.append(f"{name}:{len(lines)}: more than {MAX_LINES} lines; split it")
    for number, line in enumerate(lines, 1):
        breakable = " " in line.strip() and not name.endswith(".def")
        if len(line) > MAX_COLUMNS and breakable:
            faults.append(f"{name}:{number}: {len(line)} columns, at most {MAX_COLUMNS}")
        if UNFINISHED.search(line):
            faults.append(f"{name}:{number}: unfinished work: {line.strip()[:60]}")
        if SWITCHED_OFF.match(line):
            faults.append(f"{name}:{number}: code switched off; delete it, git remembers")
    return faults


def check_file(root: Path, path: Path) -> list[str]:
    """Faults of one file; none if it is not text of ours."""
    name = path.relative_to(root).as_posix()
    if name.startswith(EXEMPT) or not (is_source(path) or path.suffix in DOCUMENTS):
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    faults = check_source(name, lines) if is_source(path) else []
    for number, line in enumerate(lines, 1):
        if match := MACHINE_PATH.search(line):
            faults.append(f"{name}:{number}: a machine's own path: {line[match.start() :][:40]}")
    return faults


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    faults = [fault for path in files_of(root) for fault in check_file(root, path)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

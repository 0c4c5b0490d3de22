# SPDX-License-Identifier: Apache-2.0
"""`go tool pprof URL` on each profile of a server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PATHS = ("heap", "allocs?seconds=2", "lifetimes?seconds=2", "pinned")


@dataclass(frozen=True)
class Opened:
    """One profile: the first line of its table, or why there is none."""

    path: str
    fault: str  # "": none
    top: str


def open_all(address: str, out: Path, say: Callable[[str], None]) -> list[Opened]:
    """Empty, and a line that says so, where Go is not installed."""
    if not shutil.which("go"):
        say("profiles are not opened: Go is missing (apt-get install golang-go)")
        return []
    say("go tool pprof opens the profiles")
    return [_open(address, path, out) for path in PATHS]


def _open(address: str, path: str, out: Path) -> Opened:
    out.mkdir(parents=True, exist_ok=True)
    url = f"http://{address}/debug/pprof/{path}"
    done = subprocess.run(
        ["go", "tool", "pprof", "-top", url], capture_output=True, text=True, check=False,
        timeout=300, env=os.environ | {"PPROF_TMPDIR": str(out / "pprof")},
    )  # fmt: skip
    if done.returncode != 0:
        return Opened(path, done.stderr.strip() or f"pprof ended with {done.returncode}", "")
    lines = done.stdout.splitlines()
    head = next((i for i, line in enumerate(lines) if line.split()[:1] == ["flat"]), None)
    if head is None or head + 1 >= len(lines):
        return Opened(path, "no call site", "")
    return Opened(path, "", " ".join(lines[head + 1].split()))

# SPDX-License-Identifier: Apache-2.0
"""Small crafted trees, and the check scripts run on them as `make checks` runs them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPDX = "SPDX-License-Identifier: Apache-2.0\n"


def write(root: Path, files: dict[str, str]) -> Path:
    """Creates `files` (path: text) under `root`; returns `root`."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def run_check(script: str, *arguments: str | Path) -> tuple[int, str]:
    """(exit status, stderr) of scripts/`script`."""
    command = [sys.executable, str(ROOT / "scripts" / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stderr

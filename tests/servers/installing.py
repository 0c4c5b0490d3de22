# SPDX-License-Identifier: Apache-2.0
"""An installed tree, and commands that must not find the checkout instead of it."""

import os
import subprocess
from pathlib import Path

from preload import ROOT

VERSION = (ROOT / "VERSION").read_text().strip()


def clean_environment(**more: str) -> dict[str, str]:
    """Ours without what would lead back to the checkout."""
    hidden = ("PYTHONPATH", "LD_PRELOAD", "LLAMALLOC_CONF", "LLAMALLOC_LIBRARY")
    return {k: v for k, v in os.environ.items() if k not in hidden} | more


def output(*command: str | Path, cwd: Path | None = None, **more: str) -> str:
    """stdout of a command that has to succeed; `more` is added to its environment."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean_environment(**more),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def install(folder: Path) -> Path:
    """The release build, installed into the folder; moved once, as a package is."""
    first = folder / "first"
    output("cmake", "--install", ROOT / "build" / "release", "--prefix", first)
    return first.rename(folder / "prefix")

# SPDX-License-Identifier: Apache-2.0
"""Files of the processes that a recorded program started: PATH.PID beside its own PATH.

Others may have named a file so, too: only what holds a recording is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

SHOWN = 8  # a line each; of more, their number

IsRecording = Callable[[Path], bool]


def recorded(path: Path, is_recording: IsRecording) -> list[Path]:
    """The children's recordings beside `path`, oldest first."""
    number = re.compile(re.escape(path.name) + r"\.\d+")
    found = [p for p in path.parent.iterdir() if number.fullmatch(p.name) and _is(p, is_recording)]
    return sorted(found, key=lambda p: (p.stat().st_mtime_ns, p.name))


def remove_earlier(path: Path, is_recording: IsRecording) -> None:
    """Removes `path`, and what children recorded in an earlier run."""
    for old in (path, *recorded(path, is_recording)):
        old.unlink(missing_ok=True)


def number_told(path: Path, files: list[Path]) -> str:
    """A line for more than SHOWN files; else empty."""
    if len(files) <= SHOWN:
        return ""
    return f"{len(files)} processes that the program started were recorded: {path}.PID"


def _is(path: Path, is_recording: IsRecording) -> bool:
    try:
        return is_recording(path)
    except OSError:
        return False

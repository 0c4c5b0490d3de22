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


# Of the clock that file systems use.
_TICK = 20_000_000


def recorded(path: Path, is_recording: IsRecording, since: int = 0) -> list[Path]:
    """The children's recordings beside `path` that were written from `since` on (ns since 1970),
    oldest first."""
    number = re.compile(re.escape(path.name) + r"\.\d+")
    found = [
        (file.stat().st_mtime_ns, file.name, file)
        for file in path.parent.iterdir()
        if number.fullmatch(file.name) and _is(file, is_recording)
    ]
    return [file for time, _, file in sorted(found) if time >= since - _TICK]


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

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
Identity = tuple[int, int, int]  # of a file and its contents: device, inode, time in ns


def recorded(
    path: Path, is_recording: IsRecording, before: frozenset[Identity] = frozenset()
) -> list[Path]:
    """The children's recordings beside `path`, oldest first; without those of `before`, which are
    as they were then."""
    found = [file for file in _beside(path) if _is(file, is_recording)]
    new = [file for file in found if _identity(file) not in before]
    return sorted(new, key=lambda file: (file.stat().st_mtime_ns, file.name))


def there(path: Path) -> frozenset[Identity]:
    """What recorded() is to leave out later."""
    return frozenset(map(_identity, _beside(path)))


def _beside(path: Path) -> list[Path]:
    number = re.compile(re.escape(path.name) + r"\.\d+")
    return [file for file in path.parent.iterdir() if number.fullmatch(file.name)]


def _identity(file: Path) -> Identity:
    status = file.stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


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

# SPDX-License-Identifier: Apache-2.0
"""The system's transparent huge page setting: read it, and borrow it for a measurement.

always [madvise] never        the word in brackets is in force
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from pathlib import Path

from llamalloc.running.procmem import read_text

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PR_GET_THP_DISABLE = 42
_OFF, _EXCEPT_ADVISED = 1, 2  # bits of its answer; the second since Linux 6.18
CHOICES = ("always", "madvise", "never")


def chosen(text: str) -> str:
    """The word in brackets, or "unknown"."""
    word = text.partition("[")[2].partition("]")[0]
    return word if word else "unknown"


def setting(path: Path = SETTING) -> str:
    """always, madvise, never, or unknown where the kernel has no such file."""
    return chosen(read_text(path))


def process_switch() -> int:
    """What prctl(PR_GET_THP_DISABLE) says of this process; 0: nothing is switched off."""
    return max(0, int(ctypes.CDLL(None).prctl(_PR_GET_THP_DISABLE, 0, 0, 0, 0)))


def in_force(setting: str, switch: int) -> str:
    """The setting as it holds for a process with that switch; "disabled": it gets none."""
    if setting == "never" or not switch & _OFF:
        return setting
    if not switch & _EXCEPT_ADVISED:
        return "disabled"
    return "madvise" if setting == "always" else setting


@contextlib.contextmanager
def borrowed(value: str, path: Path = SETTING) -> Iterator[str]:
    """Sets the setting to `value` and puts it back on the way out, an exception included.

    Yields the setting in force: another one than asked for if we may not write it. A signal puts
    it back only if a handler turns it into an exception.
    """
    before = setting(path)
    changed = before != value and before in CHOICES and _write(path, value)
    try:
        yield setting(path)
    finally:
        if changed:
            _write(path, before)


def _write(path: Path, value: str) -> bool:
    try:
        path.write_text(value)
    except OSError:
        return False
    return True

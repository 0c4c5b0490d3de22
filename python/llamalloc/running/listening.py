# SPDX-License-Identifier: Apache-2.0
"""Whether a process, or one that it started, listens on a socket."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from llamalloc.running.procmem import PROC, read_text

_TCP_LISTEN = "0A"
_UNIX_LISTEN = 1 << 16  # SO_ACCEPTCON


def family(pid: int, proc: Path = PROC) -> Iterator[int]:
    """The process, and those below it."""
    yield pid
    for task in (proc / str(pid) / "task").glob("[0-9]*"):
        for child in read_text(task / "children").split():
            yield from family(int(child), proc)


def listens(pid: int, proc: Path = PROC) -> bool:
    """Whether one of the family takes connections, by TCP or on a Unix socket."""
    wanted = _listening(proc / str(pid) / "net")
    return any(inode in wanted for member in family(pid, proc) for inode in _sockets(member, proc))


def _sockets(pid: int, proc: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for link in (proc / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(link.readlink())
                if target.startswith("socket:["):
                    yield target[8:-1]


def _listening(net: Path) -> set[str]:
    """Inodes of the sockets that listen in a network namespace."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in read_text(net / table).splitlines()[1:]:
            words = line.split()
            if len(words) > 9 and words[3] == _TCP_LISTEN:
                found.add(words[9])
    for line in read_text(net / "unix").splitlines()[1:]:
        words = line.split()
        if len(words) > 6 and int(words[3], 16) & _UNIX_LISTEN:
            found.add(words[6])
    return found

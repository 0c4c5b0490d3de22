# SPDX-License-Identifier: Apache-2.0
"""How much of a server's memory lies on huge pages, over time, and the work that it did."""

from __future__ import annotations

from dataclasses import dataclass

from llamalloc.running import procmem
from llamalloc.running.periodic import Periodic

PERIOD = 0.25  # seconds


@dataclass(frozen=True)
class Work:
    """Of a process so far: minor page faults, and seconds of processor time."""

    faults: int
    cpu: float


def work_of(pid: int) -> Work:
    """Of all its threads, those that ended too. Raises OSError when it is gone."""
    return Work(int(procmem.stat_fields(pid)[7]), procmem.cpu_seconds(pid))


class HeapWatch(Periodic):
    """From `with` to its end, four times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(PERIOD)
        self._pid = pid
        self._huge, self._anonymous = [], []

    def coverage(self) -> float:
        """The part of anonymous memory on huge pages, over the whole time."""
        return sum(self._huge) / max(sum(self._anonymous), 1)

    def _look(self) -> bool:
        try:
            memory = procmem.read_memory(self._pid)
        except OSError:
            return False
        self._huge.append(memory.anon_huge_pages)
        self._anonymous.append(memory.anonymous)
        return True

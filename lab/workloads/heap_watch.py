# SPDX-License-Identifier: Apache-2.0
"""How much of a server's memory lies on huge pages, over time, and the work that it did."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass

from llamalloc.running import procmem
from llamalloc.running.charge import ChargeError
from llamalloc.running.memory_group import MemoryGroup
from llamalloc.running.periodic import Periodic

PERIOD = 0.25  # seconds


@dataclass(frozen=True)
class Work:
    """Of a process so far: minor page faults, and seconds of processor time."""

    faults: int
    cpu: float


def work_of(pid: int) -> Work:
    """Of all its threads, those that ended too. Raises OSError when it is gone."""
    words = procmem.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    ticks = int(words[11]) + int(words[12])
    return Work(int(words[7]), ticks / os.sysconf("SC_CLK_TCK"))


class HeapWatch(Periodic):
    """From `with` to its end, four times a second."""

    def __init__(self, pid: int, group: MemoryGroup | None) -> None:
        super().__init__(PERIOD)
        self._pid, self._group = pid, group
        self._huge, self._anonymous, self._charges = [], [], []

    def coverage(self) -> float:
        """The part of anonymous memory on huge pages, over the whole time."""
        return sum(self._huge) / max(sum(self._anonymous), 1)

    def average(self) -> float:
        """Of the charge, or of anonymous memory where there is no group."""
        return statistics.fmean(self._charges or [0])

    def peak(self) -> int:
        return max(self._charges, default=0)

    def _look(self) -> bool:
        try:
            memory = procmem.read_memory(self._pid)
            charge = self._group.read().charge if self._group else memory.anonymous
        except (OSError, ChargeError):
            return False
        self._huge.append(memory.anon_huge_pages)
        self._anonymous.append(memory.anonymous)
        self._charges.append(charge)
        return True

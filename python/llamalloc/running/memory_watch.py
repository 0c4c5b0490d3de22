# SPDX-License-Identifier: Apache-2.0
"""Watches a program's memory while it runs, 20 times a second: its RSS, and its group's charge."""

from __future__ import annotations

from dataclasses import dataclass

from llamalloc.running import procmem, residency
from llamalloc.running.charge import ChargeError
from llamalloc.running.memory_group import MemoryGroup
from llamalloc.running.periodic import Periodic

PERIOD = 0.05  # seconds


def peak_charge(group: MemoryGroup, seen: int, page_cache: int) -> int:
    """The kernel's own mark, which misses no moment, less the page cache; at least what was seen.

    The mark holds page cache, of which little goes without a limit: what is there is taken off.
    """
    try:
        mark = group.peak()
    except ChargeError:
        mark = None
    return max(seen, mark - page_cache) if mark else seen


@dataclass
class _Mean:
    total: int = 0
    count: int = 0

    def add(self, value: int) -> None:
        self.total += value
        self.count += 1

    def value(self) -> int:
        return self.total // self.count if self.count else 0


class MemoryWatch(Periodic):
    """From `with` to its end. Without a group, charges are None."""

    def __init__(self, pid: int, group: MemoryGroup | None) -> None:
        super().__init__(PERIOD)
        self._pid, self._group = pid, group
        self._rss, self._charge = _Mean(), _Mean()
        self._most = self._page_cache = 0

    def average_rss(self) -> int:
        return self._rss.value()

    def average_charge(self) -> int | None:
        return self._charge.value() if self._group else None

    def peak_charge(self) -> int | None:
        """Valid while the group exists."""
        if self._group is None:
            return None
        return peak_charge(self._group, self._most, self._page_cache)

    def _look(self) -> bool:
        words = procmem.read_text(f"/proc/{self._pid}/statm").split()
        try:
            self._note(int(words[1]) * residency.PAGE)
        except (IndexError, ChargeError):
            return False
        return True

    def _note(self, rss: int) -> None:
        self._rss.add(rss)
        if self._group:
            found = self._group.read()
            self._charge.add(found.charge)
            self._most = max(self._most, found.charge)
            self._page_cache = found.page_cache

# SPDX-License-Identifier: Apache-2.0
"""Watches a program's memory while it runs, 20 times a second: its RSS, and its group's charge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llamalloc.running import procmem
from llamalloc.running.charge import ChargeError
from llamalloc.running.memory_figures import Memory, Sizes
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
class _Seen:
    total: int = 0
    count: int = 0
    last: int = 0
    most: int = 0

    def add(self, value: int) -> None:
        self.total += value
        self.count += 1
        self.last, self.most = value, max(self.most, value)

    def sizes(self, peak: int) -> Sizes:
        return Sizes(self.last, self.total // max(self.count, 1), max(peak, self.most))


class MemoryWatch(Periodic):
    """From `with` to its end, which is the last look. `pid` may be a function that raises OSError
    while the program is not there."""

    def __init__(self, pid: int | Callable[[], int], group: MemoryGroup | None) -> None:
        super().__init__(PERIOD)
        self._pid_of = pid if callable(pid) else lambda: pid
        self._group = group
        self._rss, self._charge = _Seen(), _Seen()
        self._peak_rss = self._page_cache = 0

    def rss(self) -> Sizes:
        """The peak is the kernel's mark, as it was at the last look."""
        return self._rss.sizes(self._peak_rss)

    def charge(self) -> Sizes | None:
        """None: there is no group. Valid while the group exists."""
        if self._group is None:
            return None
        return self._charge.sizes(peak_charge(self._group, 0, self._page_cache))

    def memory(self, live: int = 0) -> Memory:
        """All of it. `live`: the most that the program had allocated; 0: not known."""
        return Memory(self.rss(), self.charge(), live)

    def stop(self) -> None:
        """What was seen stays as it is now."""
        if not self.is_over():
            super().stop()
            self._look()

    def _look(self) -> bool:
        try:
            rss, peak = procmem.read_resident(self._pid_of())
            if rss:
                self._note(rss, peak)
        except (OSError, ChargeError):
            pass  # not there yet, or gone
        return True

    def _note(self, rss: int, peak: int) -> None:
        if self._group:
            found = self._group.read()
            self._charge.add(found.charge)
            self._page_cache = found.page_cache
        self._rss.add(rss)
        self._peak_rss = max(self._peak_rss, peak)

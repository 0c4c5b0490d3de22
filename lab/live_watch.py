# SPDX-License-Identifier: Apache-2.0
"""What a program under llamalloc holds, on average over its run and at most, as the library itself
counts it: slots in use.

Two runs of one load may differ by several percent in what the program holds: clangd's two workers
take its files as they come. Memory is compared by what was live.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from llamalloc.running import published
from llamalloc.running.periodic import Periodic

PERIOD = 0.1  # seconds


class LiveWatch(Periodic):
    """From `with` to its end. `pid_of` may raise OSError while the program is not there."""

    def __init__(self, pid_of: Callable[[], int]) -> None:
        super().__init__(PERIOD)
        self._pid_of = pid_of
        self._live: list[int] = []

    def average(self) -> int:
        """Bytes; 0: the program was never seen under llamalloc."""
        return round(fmean(self._live)) if self._live else 0

    def most(self) -> int:
        """Of the moments that were seen; 0 likewise."""
        return max(self._live, default=0)

    def _look(self) -> bool:
        try:
            found = published.figures(published.read(self._pid_of()))
        except (published.PublishedError, OSError):
            return True  # not yet, no more, or another allocator
        self._live.append(found["allocated"])
        return True

# SPDX-License-Identifier: Apache-2.0
"""Samples a server's memory through a run: two threads, since a busy server answers INFO late.

One thread reads /proc ten times a second and never waits for the server. The other asks INFO over
one persistent connection; a sample bears the time of its reply, which is when the server counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.redis import Address, Client
from llamalloc.running import procmem
from llamalloc.running.charge import ChargeError
from llamalloc.running.memory_group import MemoryGroup
from llamalloc.running.server import ServerError

PERIOD = 0.1  # seconds between two samples


@dataclass
class Series:
    """Samples over time. Times in seconds since the run began, all else in bytes."""

    memory_at: list[float] = field(default_factory=list)
    rss: list[int] = field(default_factory=list)
    anon_huge_pages: list[int] = field(default_factory=list)
    live_at: list[float] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    charge_at: list[float] = field(default_factory=list)
    charge: list[int] = field(default_factory=list)  # empty: the server has no memory group


class Sampler:
    """Samples from `with` to its end; `series` then holds what was seen."""

    def __init__(
        self,
        pid: int,
        address: Address,
        seconds: Callable[[], float],
        group: MemoryGroup | None = None,
    ) -> None:
        self.series = Series()
        self._pid, self._address, self._seconds, self._group = pid, address, seconds, group
        self._over = threading.Event()
        self._threads = [threading.Thread(target=t) for t in (self._memory, self._live)]

    def __enter__(self) -> Sampler:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _every_period(self, sample: Callable[[], None]) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            try:
                sample()
            except (OSError, ServerError, ChargeError, ValueError, KeyError):
                return  # the server has gone; the run itself reports that
            due = max(due + PERIOD, time.monotonic())
            self._over.wait(due - time.monotonic())

    def _memory(self) -> None:
        self._every_period(self._sample_memory)

    def _sample_memory(self) -> None:
        memory = procmem.read_memory(self._pid)
        self.series.memory_at.append(self._seconds())
        self.series.rss.append(memory.rss)
        self.series.anon_huge_pages.append(memory.anon_huge_pages)
        if self._group:
            charge = self._group.read().charge
            self.series.charge_at.append(self._seconds())
            self.series.charge.append(charge)

    def _live(self) -> None:
        client = Client(self._address)
        self._every_period(lambda: self._sample_live(client))
        client.close()

    def _sample_live(self, client: Client) -> None:
        live = int(client.info()["used_memory"])
        self.series.live_at.append(self._seconds())
        self.series.live.append(live)

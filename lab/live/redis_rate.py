# SPDX-License-Identifier: Apache-2.0
"""Redis's requests per second with a scrape of /metrics each second, and without.

One scrape a second changes less than two rounds differ by. So there are rounds with MANY scrapes a
second, too: what they change, divided by MANY, is what one does, and so is the noise. The client
that scrapes needs processor time of its own; in the rounds `elsewhere` it scrapes another process.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lab import redis_benchmark
from lab.live.target import Load, environment, get, serving_ms, thread_ms
from lab.redis import RedisServer
from llamalloc.running.server import free_port

LOAD = redis_benchmark.Workload(clients=50, operations=200_000, value=1000, tests="set,get")
MANY = 100
# kind of round -> (scrapes a second, whether of Redis)
KINDS = {
    "without": (0, True),
    "once": (1, True),
    "many": (MANY, True),
    "elsewhere": (MANY, False),
}


@dataclass(frozen=True)
class Round:
    """One run of the load. `rate`: requests/s, the harmonic mean of SET and GET. `cpu`: µs of
    Redis's main thread for a request, which other programs disturb less."""

    rate: float
    cpu: float
    seconds: float


@dataclass
class Rates:
    """The rounds of each kind."""

    rounds: dict[str, list[Round]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    core: float = 0.0  # the part of a core that a scrape a second takes
    scrapes: int = 0  # of Redis, in all rounds

    def median(self, kind: str, value: str) -> float:
        """Of `rate` or `cpu`."""
        return statistics.median(getattr(r, value) for r in self.rounds[kind])

    def change(self, kind: str, control: str, value: str) -> float:
        """0.01: one percent more in rounds of the kind than in those of the control."""
        return self.median(kind, value) / self.median(control, value) - 1

    def of_one(self, value: str) -> float:
        """What one scrape a second changes, by rounds with many."""
        return self.change("many", "elsewhere", value) / MANY

    def spread(self) -> float:
        """(most - least) / median of the rates without scrapes."""
        rates = [r.rate for r in self.rounds["without"]]
        return (max(rates) - min(rates)) / statistics.median(rates)


class Scraper(threading.Thread):
    """Asks for /metrics so many times a second until stopped; what it misses is not made up for."""

    def __init__(self, address: str, each_second: int) -> None:
        super().__init__(daemon=True)
        self._address, self._each_second = address, each_second
        self._end, self.count = threading.Event(), 0

    def run(self) -> None:
        while self._each_second and not self._end.wait(1.0 / self._each_second):
            get(self._address, "/metrics")
            self.count += 1

    def stop(self) -> int:
        self._end.set()
        self.join()
        return self.count


def measure(rounds: int, say: Callable[[str], None]) -> Rates:
    """Interleaved rounds on one server, each kind first in turn."""
    rates = Rates()
    address = f"127.0.0.1:{free_port()}"
    cpu, kinds = 0.0, list(KINDS)
    with tempfile.TemporaryDirectory() as folder, Load(0) as other:
        server = RedisServer([], environment(f"http:{address}"), Path(folder), "redis")
        try:
            _round(server)
            for turn in range(rounds):
                say(f"Redis with and without scrapes: round {turn + 1} of {rounds}")
                for kind in kinds[turn % len(kinds) :] + kinds[: turn % len(kinds)]:
                    each_second, here = KINDS[kind]
                    scraper = Scraper(address if here else other.address, each_second)
                    before = serving_ms(server.pid)
                    scraper.start()
                    rates.rounds[kind].append(_round(server))
                    count = scraper.stop()
                    if here:
                        rates.scrapes += count
                        cpu += serving_ms(server.pid) - before
        finally:
            server.stop()
    rates.core = cpu / 1000 / max(rates.scrapes, 1)
    return rates


def _round(server: RedisServer) -> Round:
    began, before = time.monotonic(), thread_ms(server.pid, server.pid)
    found = redis_benchmark.run(
        LOAD, server.address, lambda: time.monotonic() - began, lambda _: None
    )
    cpu = thread_ms(server.pid, server.pid) - before
    rate = redis_benchmark.mean_rate(found)
    return Round(rate, 1000 * cpu / (LOAD.operations * len(found)), found[-1].end)

# SPDX-License-Identifier: Apache-2.0
"""Redis's requests per second with a scrape of /metrics each second, and without."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lab import redis_benchmark
from lab.live.target import environment, get, serving_ms, thread_ms
from lab.redis import RedisServer
from lab.server import free_port

LOAD = redis_benchmark.Workload(clients=50, operations=400_000, value=1000, tests="set,get")


@dataclass(frozen=True)
class Round:
    """One run of the load. `rate`: requests/s, the harmonic mean of SET and GET. `cpu`: µs of
    Redis's main thread for a request, which other programs disturb less."""

    rate: float
    cpu: float
    seconds: float


@dataclass
class Rates:
    """The rounds of both kinds."""

    without: list[Round] = field(default_factory=list)
    scraped: list[Round] = field(default_factory=list)
    core: float = 0.0  # the part of a core that the scrapes took

    def change(self, value: str) -> float:
        """Of the median of `rate` or `cpu`; 0.01: one percent more with scrapes."""
        return self.median(self.scraped, value) / self.median(self.without, value) - 1

    @staticmethod
    def median(rounds: list[Round], value: str) -> float:
        return statistics.median(getattr(r, value) for r in rounds)

    def spread(self) -> float:
        """(most - least) / median of the rates without scrapes."""
        rates = [r.rate for r in self.without]
        return (max(rates) - min(rates)) / statistics.median(rates)


class Scraper(threading.Thread):
    """Asks for /metrics each second until stopped."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._address, self._end, self.count = address, threading.Event(), 0

    def run(self) -> None:
        while not self._end.wait(1.0):
            get(self._address, "/metrics")
            self.count += 1

    def stop(self) -> None:
        self._end.set()
        self.join()


def measure(rounds: int, say: Callable[[str], None]) -> Rates:
    """Interleaved rounds on one server."""
    rates = Rates()
    address = f"127.0.0.1:{free_port()}"
    cpu = seconds = 0.0
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer([], environment(f"http:{address}"), Path(folder), "redis")
        try:
            _round(server)
            for turn in range(rounds):
                say(f"Redis with and without scrapes: round {turn + 1} of {rounds}")
                for scraped in (False, True) if turn % 2 else (True, False):
                    if not scraped:
                        rates.without.append(_round(server))
                        continue
                    scraper = Scraper(address)
                    before = serving_ms(server.pid)
                    scraper.start()
                    rates.scraped.append(_round(server))
                    scraper.stop()
                    cpu += serving_ms(server.pid) - before
                    seconds += rates.scraped[-1].seconds
        finally:
            server.stop()
    rates.core = cpu / 1000 / seconds
    return rates


def _round(server: RedisServer) -> Round:
    began, before = time.monotonic(), thread_ms(server.pid, server.pid)
    found = redis_benchmark.run(
        LOAD, server.address, lambda: time.monotonic() - began, lambda _: None
    )
    rate = statistics.harmonic_mean([r.requests_per_second for r in found])
    cpu = thread_ms(server.pid, server.pid) - before
    return Round(rate, 1000 * cpu / (LOAD.operations * len(found)), found[-1].end)

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
from lab.live.target import environment, get, serving_ms
from lab.redis import RedisServer
from lab.server import free_port

LOAD = redis_benchmark.Workload(clients=50, operations=400_000, value=1000, tests="set,get")


@dataclass
class Rates:
    """Requests/s of each round: of SET and GET, the harmonic mean."""

    without: list[float] = field(default_factory=list)
    scraped: list[float] = field(default_factory=list)
    core: float = 0.0  # the part of a core that the scrapes took

    def change(self) -> float:
        """Of the median, 0.01: one percent more with scrapes."""
        return statistics.median(self.scraped) / statistics.median(self.without) - 1

    def spread(self) -> float:
        """(most - least) / median among the rounds without scrapes."""
        median = statistics.median(self.without)
        return (max(self.without) - min(self.without)) / median


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
                        rates.without.append(_round(server)[0])
                        continue
                    scraper = Scraper(address)
                    before = serving_ms(server.pid)
                    scraper.start()
                    rate, took = _round(server)
                    scraper.stop()
                    rates.scraped.append(rate)
                    cpu += serving_ms(server.pid) - before
                    seconds += took
        finally:
            server.stop()
    rates.core = cpu / 1000 / seconds
    return rates


def _round(server: RedisServer) -> tuple[float, float]:
    began = time.monotonic()
    found = redis_benchmark.run(
        LOAD, server.address, lambda: time.monotonic() - began, lambda _: None
    )
    return statistics.harmonic_mean([r.requests_per_second for r in found]), found[-1].end

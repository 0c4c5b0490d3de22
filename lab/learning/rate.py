# SPDX-License-Identifier: Apache-2.0
"""What learning costs Redis: requests/s and processor time, beside the same without learning.

Servers run at the same time, one without learning, one more of the same as a control, and one for
each configuration that learns. In each turn, each of them serves the same short load, in an order
drawn anew; its figures are divided by those without learning in the same turn. Turns go on until
the 95 % interval of the mean is as narrow as asked for, or their number is reached. The control
shows what the machine's noise is worth. Goal: requests/s >= 0.99.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from lab import redis_benchmark
from lab.command import exit_status
from lab.launcher import LauncherError
from lab.live.target import environment, process_ms
from lab.machine import machine
from lab.places import LIBRARY, ROOT
from lab.redis import RedisServer
from llamalloc.running.server import ServerError

BLIND = "without learning"
ROWS = {
    BLIND: "",
    "the same again": "",
    "learns": "learn:on",
    "learns, places by it": "learn:on,segregate:always",
}
OTHERS = tuple(row for row in ROWS if row != BLIND)
# 100 MB of values, as a heap below 64 MiB does not learn; then what is timed.
FILL = redis_benchmark.Workload(clients=50, operations=100_000, value=1000, tests="lpush")
LOAD = redis_benchmark.Workload(clients=50, operations=40_000, value=1000, tests="set,get")
GOAL = 0.01
_LEAST = 30  # turns: with fewer, the quantile is not the normal one
_SAID = 10  # turns
_QUANTILE = statistics.NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Turn:
    """One run of the load. `rate`: requests/s, the harmonic mean of its tests. `cpu`: ms of all
    threads of the server."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Interval:
    """Of the mean ratio, 95 %."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


@dataclass
class Rates:
    """Turns by row; the nth ones of all rows belong together."""

    turns: dict[str, list[Turn]] = field(default_factory=lambda: {row: [] for row in ROWS})

    def interval(self, row: str, figure: str) -> Interval:
        """Of `rate` or `cpu`, divided by that without learning."""
        pairs = zip(self.turns[row], self.turns[BLIND], strict=True)
        ratios = [math.log(getattr(one, figure) / getattr(blind, figure)) for one, blind in pairs]
        mean = statistics.fmean(ratios)
        half = _QUANTILE * statistics.stdev(ratios) / math.sqrt(len(ratios))
        return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))

    def is_narrow(self, within: float) -> bool:
        """Whether each interval is `within` to both sides."""
        if len(self.turns[BLIND]) < _LEAST:
            return False
        return all(self.interval(row, "rate").half <= within for row in OTHERS)

    def verdict(self, row: str) -> str:
        """Of requests/s: what the interval says of the goal."""
        found = self.interval(row, "rate")
        if found.low >= 1 - GOAL:
            return "reached"
        return "MISSED" if found.high < 1 - GOAL else "too noisy to tell"


def measure(most: int, within: float, seed: int, say: Callable[[str], None]) -> Rates:
    """Raises ServerError or BenchmarkError."""
    rates, order, draw = Rates(), list(ROWS), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        running = {}
        for number, (row, conf) in enumerate(ROWS.items()):
            place = Path(folder) / str(number)
            place.mkdir()
            running[row] = RedisServer([], environment(conf), place, "redis")
            servers.callback(running[row].stop)
            _serve(running[row], FILL)
        for turn in range(1, most + 1):
            draw.shuffle(order)
            for row in order:
                rates.turns[row].append(_serve(running[row], LOAD))
            if turn % _SAID == 0:
                say(f"turn {turn} of {most} at most: " + _line(rates))
                if rates.is_narrow(within):
                    break
    return rates


def _serve(server: RedisServer, load: redis_benchmark.Workload) -> Turn:
    before = process_ms(server.pid)
    found = redis_benchmark.run(load, server.address, time.monotonic, lambda _: None)
    return Turn(redis_benchmark.mean_rate(found), process_ms(server.pid) - before)


def _line(rates: Rates) -> str:
    return ", ".join(f"{row} {rates.interval(row, 'rate')}" for row in OTHERS)


def table(rates: Rates) -> str:
    """Markdown."""
    lines = ["| Redis | requests/s | processor time | requests/s >= 0.99 |", "|---|---|---|---|"]
    for row in OTHERS:
        rate, cpu = rates.interval(row, "rate"), rates.interval(row, "cpu")
        lines.append(f"| {row} | {rate} | {cpu} | {rates.verdict(row)} |")
    return "\n".join(lines)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call takes four to ten minutes."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.learning.rate", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--turns", type=int, default=100, help="at most (100)")
    parser.add_argument("--within", type=float, default=0.005,
                        help="half of an interval that is narrow enough (0.005)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of the order (1)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "learning-rate.json",
                        help="file to write")  # fmt: skip
    options = parser.parse_args(argv)
    if options.turns < _LEAST or options.within <= 0:
        parser.error(f"--turns must be at least {_LEAST}, --within above 0")
    return options


def main(argv: list[str] | None = None) -> int:
    """0; 1 if a row that learns misses the goal; 2 if nothing could run."""
    options = arguments(argv)
    faults = (ValueError, OSError, ServerError, LauncherError, redis_benchmark.BenchmarkError)
    return exit_status("rate", lambda: _run(options), faults)


def _say(text: str) -> None:
    print(text, flush=True)


def _run(options: argparse.Namespace) -> int:
    if not LIBRARY.is_file():
        raise ValueError(f"{LIBRARY} is not there; run: make build")
    rates = measure(options.turns, options.within, options.seed, _say)
    turns = {row: [vars(turn) for turn in found] for row, found in rates.turns.items()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"machine": machine(), "turns": turns}, indent=1) + "\n")
    print(table(rates))
    return 1 if any(rates.verdict(row) == "MISSED" for row, conf in ROWS.items() if conf) else 0


if __name__ == "__main__":
    raise SystemExit(main())

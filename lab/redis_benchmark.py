# SPDX-License-Identifier: Apache-2.0
"""Runs redis-benchmark and reads its CSV, which Redis 6.2 and later print.

"test","rps","avg_latency_ms",...
"SET","37188.55","82.268",...
"""

from __future__ import annotations

import csv
import statistics
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.redis import Address


@dataclass(frozen=True)
class Workload:
    """One call of redis-benchmark. `value` in bytes, `settle` in seconds after the last connection.

    The default is the load of ASPLOS 2020, section 7.
    """

    clients: int = 5_000
    operations: int = 100_000
    value: int = 1_000
    tests: str = "set,get,lpush,lrange_100"
    settle: float = 6.0


PAPER = Workload()

# The names that redis-benchmark prints, shortened for a table's head.
_SHORT = {
    "LPUSH (needed to benchmark LRANGE)": "LPUSH 2",
    "LRANGE_100 (first 100 elements)": "LRANGE_100",
}


class BenchmarkError(RuntimeError):
    """redis-benchmark failed; the message holds what it said."""


@dataclass(frozen=True)
class Rate:
    """Requests per second of one test; `end` is seconds since the run began."""

    name: str
    requests_per_second: float
    end: float


def mean_rate(tests: Sequence[Rate]) -> float:
    """Harmonic mean over the tests: all requests divided by all their time."""
    return statistics.harmonic_mean([test.requests_per_second for test in tests])


def parse_line(line: str) -> tuple[str, float] | None:
    """(test, requests/s) of one CSV line; None for the head and for an empty line.

    Raises BenchmarkError for anything else, for then figures would be missing unseen.
    """
    cells = next(csv.reader([line]), [])
    if not cells or cells[0] == "test":
        return None
    try:
        return _SHORT.get(cells[0], cells[0]), float(cells[1])
    except (IndexError, ValueError):
        raise BenchmarkError(f"redis-benchmark printed a line we cannot read: {line!r}") from None


def command(workload: Workload, address: Address) -> list[str]:
    """The call; stdbuf makes each test's line arrive when the test ends."""
    if isinstance(address, int):
        where = ("-h", "127.0.0.1", "-p", str(address))
    else:
        where = ("-s", str(address))
    return [
        *("stdbuf", "-oL", "redis-benchmark", *where, "--csv"),
        *("-c", str(workload.clients), "-n", str(workload.operations)),
        *("-d", str(workload.value), "-t", workload.tests),
    ]


def run(
    workload: Workload,
    address: Address,
    seconds: Callable[[], float],
    say: Callable[[str], None],
) -> list[Rate]:
    """Runs all tests; `seconds` is the run's clock, `say` hears each test as it ends."""
    rates: list[Rate] = []
    with subprocess.Popen(
        command(workload, address), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            for line in process.stdout or ():
                if (parsed := parse_line(line.strip())) is not None:
                    rates.append(Rate(*parsed, end=seconds()))
                    say(f"{parsed[0]} {parsed[1]:,.0f}/s")
        except BaseException:
            process.kill()
            raise
        complaint = (process.stderr.read() if process.stderr else "").strip()
    if process.returncode != 0 or not rates:
        raise BenchmarkError(f"redis-benchmark ended with {process.returncode}: {complaint}")
    return rates

# SPDX-License-Identifier: Apache-2.0
"""Throughput and latency from what a load program prints.

Known are redis-benchmark (also -q and --csv), wrk, hey, ab, sysbench, pgbench, memtier_benchmark,
and any line with `NUMBER requests per second`, `req/s` or `ops/s`.
"""

from __future__ import annotations

import csv
import itertools
import re
from dataclasses import dataclass

_NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
_RATES = (
    rf"^Requests/sec:\s*{_NUMBER}",  # wrk, hey
    rf"^Requests per second:\s*{_NUMBER}",  # ab
    rf"^\s*transactions:.*\({_NUMBER} per sec\.\)",  # sysbench
    rf"^\s*events per second:\s*{_NUMBER}",
    rf"^tps = {_NUMBER} \(",  # pgbench
    rf"^Totals\s+{_NUMBER}",  # memtier_benchmark
    rf"{_NUMBER} requests per second",  # redis-benchmark
    rf"{_NUMBER}\s*(?:requests|reqs?|ops|operations|queries)\s*(?:/|per )\s*s",
)
_P99 = (
    rf"^\s*99%\s+{_NUMBER}\s*(us|ms|s)\b",  # wrk
    rf"^\s*99% in {_NUMBER} (secs)",  # hey
    rf"^\s*99%\s+{_NUMBER}()\s*$",  # ab: ms
    rf"p99[=: ]+{_NUMBER}\s*(us|ms|msec|s)?\b",
)
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "msec": 1.0, "s": 1e3, "secs": 1e3}


class FiguresError(ValueError):
    """A regular expression of the user's is not one, or has no group."""


@dataclass(frozen=True)
class Figures:
    """None: the output does not say. Of several tests, one after the other: the rate of all
    together, and the worst latency."""

    per_second: float | None = None
    p99_ms: float | None = None


def read(output: str, rate: str = "", latency: str = "") -> Figures:
    """The figures in an output; `rate` and `latency`: regular expressions whose first group is the
    number, in milliseconds for the latency. Raises FiguresError."""
    rates = _found(rate, output) if rate else _csv(output, "rps") or _first_kind(_RATES, output)
    times = _found(latency, output) if latency else _latencies(output)
    return Figures(_together(rates), max(times, default=None))


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises FiguresError."""
    try:
        found = re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise FiguresError(f"{pattern!r} is no regular expression: {error}") from None
    if found.groups == 0:
        raise FiguresError(f"{pattern!r} has no group; put the number in parentheses")
    return found


def _found(pattern: str, output: str) -> list[float]:
    return [n for m in compiled(pattern).finditer(output) if (n := _value(m[1])) is not None]


def _first_kind(patterns: tuple[str, ...], output: str) -> list[float]:
    return next((found for p in patterns if (found := _found(p, output))), [])


def _latencies(output: str) -> list[float]:
    if found := _csv(output, "p99_latency_ms") or _summary(output):
        return found
    for pattern in _P99:
        found = [
            float(m[1].replace(",", "")) * _MILLISECONDS.get(m[2] or "ms", 1.0)
            for m in compiled(pattern).finditer(output)
        ]
        if found:
            return found
    return []


def _csv(output: str, column: str) -> list[float]:
    """A column of redis-benchmark --csv."""
    rows = [
        row for line in output.splitlines() if line.startswith('"') for row in csv.reader([line])
    ]
    if not rows or column not in rows[0]:
        return []
    at = rows[0].index(column)
    cells = [row[at] for row in rows[1:] if len(row) > at]
    return [n for cell in cells if (n := _value(cell)) is not None]


def _summary(output: str) -> list[float]:
    """redis-benchmark: a head `avg min p50 p95 p99 max`, and the numbers in the next line."""
    lines = output.splitlines()
    pairs = [(a.split(), b.split()) for a, b in itertools.pairwise(lines)]
    found = [b[a.index("p99")] for a, b in pairs if "p99" in a and len(a) == len(b)]
    return [n for cell in found if (n := _value(cell)) is not None]


def _value(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def _together(rates: list[float]) -> float | None:
    """As many requests in each test, one after the other: the harmonic mean."""
    rates = [rate for rate in rates if rate > 0]
    return len(rates) / sum(1 / rate for rate in rates) if rates else None

# SPDX-License-Identifier: Apache-2.0
"""What a run measured, what follows from it, and its JSON. Bytes, seconds, requests per second."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab import memory_table
from lab.demo.sampler import Series
from lab.redis_benchmark import PAPER, Rate, Workload, mean_rate
from llamalloc.running.memory_figures import TITLES, Memory, Sizes

LIVE_MEANS = (
    "Live is Redis's own used_memory after the drop, which counts slot sizes and so differs a "
    "little by allocator; every row is divided by the smallest of them, since all rows store "
    "the very same data."
)


@dataclass
class Run:
    """One server, one benchmark. rss, anonymous, anon_huge_pages, used_memory, charge: after the
    drop. `charge` and `peak_charge` None: the server had no memory control group. `peak_live`:
    Redis's own used_memory_peak, which it updates with each command; None: not asked."""

    allocator: str
    title: str
    rss: int
    anon_huge_pages: int
    used_memory: int
    dropped_at: float
    tests: list[Rate]
    series: Series
    peak_rss: int
    faults: list[str] = field(default_factory=list)
    statistics: dict[str, Any] | None = None
    anonymous: int = 0  # of rss; 0: not measured
    charge: int | None = None
    peak_charge: int | None = None
    peak_live: int | None = None

    @property
    def coverage(self) -> float:
        """AnonHugePages / RSS after the drop, 0..1."""
        return self.anon_huge_pages / self.rss if self.rss else 0.0

    @property
    def anonymous_coverage(self) -> float:
        """AnonHugePages / anonymous memory: the program's and its libraries' files cannot be."""
        return self.anon_huge_pages / self.anonymous if self.anonymous else 0.0

    @property
    def memory(self) -> Memory:
        """Over the whole run. Live is the most that Redis held: how far replies pile up differs by
        hundreds of MiB between two runs of one allocator."""
        charge = None
        if self.charge is not None:
            charge = Sizes(self.charge, _mean(self.series.charge), self.peak_charge or 0)
        rss = Sizes(self.rss, _mean(self.series.rss), self.peak_rss)
        return Memory(rss, charge, self.peak_live or 0)

    @property
    def average_over_live(self) -> float | None:
        """Both over time: the average alone follows how far replies pile up. None: no charge."""
        series = self.series
        charge = _over_time(series.charge_at, series.charge)
        live = _over_time(series.live_at, series.live)
        return charge / live if charge and live else None

    @property
    def requests_per_second(self) -> float:
        """Over all tests."""
        return mean_rate(self.tests)


@dataclass
class Figures:
    """One row of the table: medians over the runs of one allocator."""

    allocator: str
    title: str
    runs: int
    rss: float
    average_rss: float
    peak_rss: float
    ratio: float
    coverage: float
    anonymous_coverage: float
    requests_per_second: float
    by_test: dict[str, float]
    faults: int
    charge: float | None = None
    charge_ratio: float | None = None
    average_charge: float | None = None
    peak_charge: float | None = None
    peak_live: float | None = None
    peak_over_live: float | None = None
    average_over_live: float | None = None


@dataclass
class Results:
    """Everything that the page and the table show. `hugepages`: the setting during the runs."""

    hugepages: str
    machine: str
    workload: Workload = PAPER
    runs: list[Run] = field(default_factory=list)
    recorded: list[Run] = field(default_factory=list)
    training: dict[str, Any] | None = None

    def live(self) -> int:
        """The live bytes that every row is divided by (see LIVE_MEANS)."""
        return min(run.used_memory for run in self.runs)

    def is_charged(self) -> bool:
        """Whether every run had a memory control group."""
        return all(run.charge is not None for run in self.runs)

    def rows(self) -> list[Figures]:
        """Medians by allocator, in the order of first runs."""
        names = dict.fromkeys(run.allocator for run in self.runs)
        return [self._figures([r for r in self.runs if r.allocator == name]) for name in names]

    def sampling(self) -> tuple[float, float] | None:
        """Median requests/s on llamalloc without a model: (sampler off, on); None without both."""
        off = [r.requests_per_second for r in self.runs if r.allocator == "plain"]
        on = [r.requests_per_second for r in self.recorded]
        return (statistics.median(off), statistics.median(on)) if off and on else None

    def one_run(self, allocator: str) -> Run | None:
        """The run of an allocator whose memory after the drop is the median: for the pictures."""
        runs = [r for r in self.runs if r.allocator == allocator]
        runs.sort(key=lambda r: r.charge or r.rss)
        return runs[(len(runs) - 1) // 2] if runs else None

    def _figures(self, runs: list[Run]) -> Figures:
        median = statistics.median
        by_name = {
            name: median(t.requests_per_second for r in runs for t in r.tests if t.name == name)
            for name in dict.fromkeys(test.name for test in runs[0].tests)
        }
        memory = _medians([r.memory for r in runs])
        charge = memory["charge"]
        return Figures(
            allocator=runs[0].allocator,
            title=runs[0].title,
            runs=len(runs),
            rss=memory["rss"] or 0,
            average_rss=memory["average_rss"] or 0,
            peak_rss=memory["peak_rss"] or 0,
            ratio=(memory["rss"] or 0) / self.live(),
            coverage=median(r.coverage for r in runs),
            anonymous_coverage=median(r.anonymous_coverage for r in runs),
            requests_per_second=median(r.requests_per_second for r in runs),
            by_test=by_name,
            faults=sum(len(r.faults) for r in runs),
            charge=charge,
            charge_ratio=charge / self.live() if charge is not None else None,
            average_charge=memory["average_charge"],
            peak_charge=memory["peak_charge"],
            peak_live=_median([r.peak_live for r in runs]),
            peak_over_live=memory["over_live"],
            average_over_live=_median([r.average_over_live for r in runs]),
        )

    def write(self, path: Path) -> None:
        """Rows and runs as JSON."""
        document = {
            "version": 1,
            "live": self.live() if self.runs else None,
            "live_means": LIVE_MEANS,
            "rows": [asdict(row) for row in self.rows()],
            **asdict(self),
        }
        path.write_text(json.dumps(document, indent=1) + "\n")


def _medians(found: list[Memory]) -> dict[str, float | None]:
    """Each figure of TITLES."""
    return {name: memory_table.median(name, found) for name in TITLES}


def _mean(values: Sequence[int]) -> int:
    return round(statistics.fmean(values)) if values else 0


def _over_time(at: Sequence[float], values: Sequence[int]) -> float:
    """The mean of what changes evenly between samples, however far apart they are; 0 of less than
    two."""
    if len(at) < 2:
        return 0.0
    pairs = itertools.pairwise(zip(at, values, strict=False))
    area = sum((t - s) * (a + b) / 2 for (s, a), (t, b) in pairs)
    return area / (at[-1] - at[0])


def _median(values: Sequence[float | None]) -> float | None:
    """Of those that were measured."""
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def read(path: Path) -> Results:
    """The results in a file that `Results.write` wrote."""
    document = json.loads(path.read_text())
    return Results(
        hugepages=document["hugepages"],
        machine=document["machine"],
        workload=Workload(**document["workload"]),
        runs=[_run(r) for r in document["runs"]],
        recorded=[_run(r) for r in document["recorded"]],
        training=document["training"],
    )


def _run(fields: dict[str, Any]) -> Run:
    tests = [Rate(**test) for test in fields["tests"]]
    return Run(**{**fields, "tests": tests, "series": Series(**fields["series"])})

# SPDX-License-Identifier: Apache-2.0
"""What was measured: the runs of each case by row, what they say, and the JSON of it.

A case is a load: a way compiled by a variant and filled at some speed, or a load that no site tells
apart. Two goals:

    reached    second run: median <= 10 MiB, worst <= 16 MiB (Figures.judged)
    not worse  each run that learns: memory <= 1.03 and time <= 1.05 times the blind run's
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.sites.process import Figures
from lab.sites.rows import BLIND, LEARNED, SECOND

FORMAT = 1
MIB = 1 << 20
TYPICAL, WORST = 10 * MIB, 16 * MIB
MEMORY, TIME = 1.03, 1.05


@dataclass
class Case:
    """One load. `failed`: why it has no more runs."""

    name: str
    variant: str = ""
    fill: str = ""
    runs: dict[str, list[Figures]] = field(default_factory=dict)
    failed: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.name, self.variant, self.fill)))

    def add(self, row: str, figures: Figures) -> None:
        self.runs.setdefault(row, []).append(figures)

    def median(self, row: str, of: Callable[[Figures], float]) -> float | None:
        """Of all runs of a row; None where there is none."""
        return statistics.median(map(of, self.runs[row])) if self.runs.get(row) else None

    def worst(self, row: str) -> int | None:
        """The most memory that a run of the row kept."""
        return max((f.judged for f in self.runs.get(row, ())), default=None)

    def verdict(self) -> str:
        """On the second run: `reached`, `worst too high`, `missed`; empty where it has none."""
        median, worst = self.median(SECOND, lambda f: f.judged), self.worst(SECOND)
        if median is None or worst is None:
            return ""
        if median > TYPICAL:
            return "missed"
        return "reached" if worst <= WORST else "worst too high"

    def ratio(self, row: str, of: Callable[[Figures], float]) -> float | None:
        """The row's median beside the blind one's; None where blind has none, or 0."""
        ours, blind = self.median(row, of), self.median(BLIND, of)
        return ours / blind if ours is not None and blind else None


# What must not be worse: its name, how it is read, how much it may grow.
AVERAGE, OVER_LIVE = "average memory", "average / live"
COMPARED = (
    (AVERAGE, lambda f: f.mean, MEMORY),
    (OVER_LIVE, lambda f: f.mean_over_live, MEMORY),
    ("after the drop", lambda f: f.judged, MEMORY),
    ("seconds", lambda f: f.seconds, TIME),
    ("CPU", lambda f: f.cpu, TIME),
)


def worse(case: Case, row: str) -> list[str]:
    """What of COMPARED grew too much in a row. The average only with what it is by live: a program
    that holds more takes more, and one that holds as much for a shorter time keeps what it has."""
    grown = [name for name, of, limit in COMPARED if (case.ratio(row, of) or 0) > limit]
    of_average = {AVERAGE, OVER_LIVE} & set(grown)
    is_known = case.ratio(row, lambda f: f.mean_over_live) is not None
    explained = of_average if is_known and len(of_average) == 1 else set()
    return [name for name in grown if name not in explained]


@dataclass
class Results:
    """Cases of section 9.6, cases that must not be worse, and why some are missing."""

    machine: dict[str, str]
    rows: list[str]
    conf: str = ""
    cases: list[Case] = field(default_factory=list)
    guarded: list[Case] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    floor: Figures | None = None  # the survivors alone, blind: what no placement can undercut

    @property
    def learned(self) -> list[str]:
        """Those of `rows` that learn."""
        return [row for row in self.rows if row in LEARNED]

    def faults(self) -> list[str]:
        """A line for each case that could not run to its end."""
        return [f"{case}: {case.failed}" for case in (*self.cases, *self.guarded) if case.failed]

    def said(self) -> list[str]:
        """What programs and libraries wrote to stderr, each line once."""
        return list(dict.fromkeys(line for f in self._runs() for line in f.said))

    def is_charged(self) -> bool:
        """Whether every run had a memory control group."""
        return all(f.charge is not None for f in self._runs())

    def is_reached(self) -> bool:
        """Whether every case that learned reaches its goal, and none failed."""
        missed = any(c.verdict() not in ("", "reached") for c in self.cases)
        return not (missed or self.faults() or any(self._worse()))

    def _runs(self) -> Iterator[Figures]:
        return (f for c in (*self.cases, *self.guarded) for fs in c.runs.values() for f in fs)

    def _worse(self) -> list[list[str]]:
        return [worse(c, row) for c in self.guarded for row in self.learned]

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.document(), indent=1) + "\n")

    def document(self) -> dict:
        return {"format": FORMAT} | asdict(self) | {
            "cases": [self._case(c) | {"verdict": c.verdict()} for c in self.cases],
            "guarded": [
                self._case(c) | {"worse": {row: worse(c, row) for row in self.learned}}
                for c in self.guarded
            ],
        }  # fmt: skip

    @staticmethod
    def _case(case: Case) -> dict:
        return asdict(case) | {
            "median": {row: case.median(row, lambda f: f.judged) for row in case.runs},
            "worst": {row: case.worst(row) for row in case.runs},
        }

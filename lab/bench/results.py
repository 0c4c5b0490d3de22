# SPDX-License-Identifier: Apache-2.0
"""What was measured: samples by row and allocator, their medians and spreads, and the JSON of it.

ratio: our median over the best peer's, turned so that less is better in every row.
spread: (third quartile - first quartile) / median over the rounds.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.allocators import OURS, Allocator
from lab.bench.programs import MOST_LIVE
from lab.bench.rows import MEMORY, PROGRAMS, Row

FORMAT = 1


@dataclass(frozen=True)
class Cell:
    """One allocator in one row."""

    allocator: str
    median: float
    least: float
    most: float
    spread: float
    samples: int


def cell(allocator: str, values: Sequence[float]) -> Cell:
    """The statistics of at least one value."""
    median = statistics.median(values)
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else None
    width = quartiles[2] - quartiles[0] if quartiles else 0.0
    spread = width / median if median else 0.0
    return Cell(allocator, median, min(values), max(values), spread, len(values))


@dataclass(frozen=True)
class Line:
    """One row of the table: cells in the allocators' order, and how ours compares."""

    row: Row
    cells: list[Cell]

    def best_peer(self) -> Cell | None:
        peers = [c for c in self.cells if c.allocator != OURS]
        best = max if self.row.higher else min
        return best(peers, key=lambda c: c.median) if peers else None

    def ours(self) -> Cell | None:
        return next((c for c in self.cells if c.allocator == OURS), None)

    def ratio(self) -> float | None:
        """Ours beside the best peer, under 1 is better; None where either is missing or zero."""
        ours, peer = self.ours(), self.best_peer()
        if ours is None or peer is None or not ours.median or not peer.median:
            return None
        return (peer.median / ours.median) if self.row.higher else (ours.median / peer.median)


@dataclass
class Results:
    """All samples of a run: samples[row][allocator] is a list of figures by name, one a round."""

    machine: dict[str, str]
    allocators: list[Allocator]
    rows: list[Row]
    clock: str = "ns"
    missing: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    samples: dict[str, dict[str, list[dict[str, float]]]] = field(default_factory=dict)

    def add(self, row: Row, allocator: Allocator, figures: dict[str, float]) -> None:
        self.samples.setdefault(row.name, {}).setdefault(allocator.name, []).append(figures)

    def is_charged(self) -> bool:
        """Whether all rows of memory have their line of charges."""
        lines = {line.row.name for line in self.lines()}
        kinds = {": memory": ": charge", ": average RSS": ": average charge"}
        return all(
            name.removesuffix(rss) + charge in lines
            for name in lines
            for rss, charge in kinds.items()
            if name.endswith(rss)
        )

    def lines(self) -> list[Line]:
        """A line for each row that has samples, and one for each of its figures of memory."""
        return [line for row in self.rows for line in self._lines(row) if line.cells]

    def _lines(self, row: Row) -> list[Line]:
        metric = self.clock if row.metric == "ns" else row.metric
        found = [Line(row, self._cells(row, metric))]
        for end, figure, unit, title in PROGRAMS if row.program else MEMORY.get(row.name, ()):
            part = Row(f"{row.name}: {end}", title, figure, unit, program=row.program)
            found.append(Line(part, self._cells(row, figure)))
        return found

    def _cells(self, row: Row, figure: str) -> list[Cell]:
        by_allocator, live = self.samples.get(row.name, {}), self._live(row)
        values = {
            a.name: [
                value
                for sample in by_allocator.get(a.name, ())
                if (value := _figure(sample, figure, live)) is not None
            ]
            for a in self.allocators
        }
        return [cell(name, found) for name, found in values.items() if found]

    def _live(self, row: Row) -> float:
        """The most that was live on ours; 0: not counted."""
        samples = self.samples.get(row.name, {}).get(OURS, ())
        return statistics.median([s[MOST_LIVE] for s in samples if MOST_LIVE in s] or [0])

    def write(self, path: Path) -> None:
        """Everything, as JSON: machine, versions, samples, and the lines of the table."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.document(), indent=1) + "\n")

    def document(self) -> dict:
        return {
            "format": FORMAT,
            "machine": self.machine,
            "clock": self.clock,
            "allocators": [asdict(allocator) for allocator in self.allocators],
            "missing": self.missing,
            "faults": self.faults,
            "lines": [
                asdict(line)
                | {"ratio": line.ratio(), "best_peer": getattr(line.best_peer(), "allocator", None)}
                for line in self.lines()
            ],
            "samples": self.samples,
        }

    @staticmethod
    def _document(line: Line) -> dict:
        best = line.best_peer()
        compared = {"ratio": line.ratio(), "best_peer": best.allocator if best else None}
        return asdict(line) | compared


def _figure(sample: dict[str, float], figure: str, live: float) -> float | None:
    """Of a sample. A program that does not say what is live has as much of it on each allocator."""
    if figure == "over_live" and figure not in sample and live:
        peak = sample.get("peak_charge", sample.get("peak_rss", 0))
        return peak / live if peak else None
    return sample.get(figure)

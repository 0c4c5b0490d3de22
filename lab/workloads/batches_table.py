# SPDX-License-Identifier: Apache-2.0
"""The table of the batches: a line for each release plan, and the figures beside the baseline's."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lab import memory_table
from lab.machine import machine
from llamalloc.running import hugepages
from llamalloc.running.memory_figures import Memory
from llamalloc.running.memory_group import WITHOUT

BASELINE = "static"


@dataclass
class Run:
    """One run, from the first batch to the last. `memory.live`: what Redis uses at most. `cpu`:
    seconds for a request. `statistics`: llamalloc's, from the start on; a peer has none."""

    memory: Memory
    rate: float
    cpu: float
    faults: int
    coverage: float
    statistics: dict[str, int] | None = None

    def of_live(self, name: str) -> float | None:
        """One of the statistics, over live."""
        return self.statistics[name] / self.memory.live if self.statistics else None

    def counted(self, name: str) -> int | None:
        return self.statistics[name] if self.statistics else None

    def accuracy(self) -> float | None:
        """Of the skipped bytes that were judged, the part that was right."""
        if self.statistics is None:
            return None
        right, wrong = (self.statistics[f"release_skipped_{w}"] for w in ("right", "wrong"))
        return right / (right + wrong) if right + wrong else None


@dataclass(frozen=True)
class Column:
    """A figure of a run. `beside`: it is divided by the baseline's, too."""

    head: str
    of: Callable[[Run], float | None]
    text: str
    beside: bool = False

    def median(self, runs: list[Run]) -> float | None:
        values = [value for run in runs if (value := self.of(run)) is not None]
        return statistics.median(values) if values else None


COLUMNS = (
    Column("coverage", lambda r: r.coverage, "{:.1%}"),
    Column("realized", lambda r: r.of_live("realized_fragmentation"), "{:.2%}"),
    Column("free", lambda r: r.of_live("average_fragmentation"), "{:.1%}"),
    Column("broken", lambda r: r.counted("pages_broken"), "{:,.0f}", beside=True),
    Column("mended", lambda r: r.counted("pages_mended"), "{:,.0f}"),
    Column("refetched", lambda r: r.counted("huge_pages_refetched"), "{:,.0f}"),
    Column("faults", lambda r: r.faults, "{:,.0f}", beside=True),
    Column("skips right", Run.accuracy, "{:.0%}"),
    Column("requests/s", lambda r: r.rate, "{:,.0f}", beside=True),
    Column("CPU µs", lambda r: 1e6 * r.cpu, "{:.2f}"),
)


def _cells(column: Column, runs: list[Run], baseline: list[Run]) -> list[str]:
    value, of_baseline = column.median(runs), column.median(baseline)
    cells = ["-" if value is None else column.text.format(value)]
    if column.beside:
        cells.append("-" if value is None or not of_baseline else f"{value / of_baseline:.2f}")
    return cells


def table(found: dict[str, list[Run]]) -> Table:
    """A line a row; `/ static` follows a figure that is compared."""
    view = Table(box=box.SIMPLE, pad_edge=False)
    view.add_column("plan", no_wrap=True)
    for column in COLUMNS:
        view.add_column(column.head, justify="right", no_wrap=True)
        if column.beside:
            view.add_column(f"/ {BASELINE}", justify="right", no_wrap=True)
    baseline = found.get(BASELINE, [])
    for name, runs in found.items():
        cells = [text for column in COLUMNS for text in _cells(column, runs, baseline)]
        view.add_row(name, *cells, style="bold" if name == "auto" else "")
    return view


def memory(found: dict[str, list[Run]]) -> Table:
    """A line a row: what it is charged for, and RSS."""
    view = Table(box=box.SIMPLE, pad_edge=False)
    view.add_column("plan", no_wrap=True)
    memory_table.add_columns(view)
    for name, runs in found.items():
        cells = memory_table.cells([run.memory for run in runs])
        view.add_row(name, *cells, style="bold" if name == "auto" else "")
    return view


def show(found: dict[str, list[Run]]) -> None:
    """Prints both, what Redis used, and the huge page setting."""
    runs = [run for one in found.values() for run in one]
    Console(width=None if sys.stdout.isatty() else 200).print(table(found), memory(found))
    live = memory_table.mib(max(run.memory.live for run in runs))
    print(f"live at most: {live} MiB (used_memory of Redis)")
    print(f"transparent huge pages: {hugepages.setting()}")
    if not all(run.memory.charge for run in runs):
        print(WITHOUT)


def write(path: Path | None, found: dict[str, list[Run]]) -> None:
    """All runs by row, and the machine, as JSON."""
    if path:
        rows = {name: [asdict(run) for run in runs] for name, runs in found.items()}
        path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")

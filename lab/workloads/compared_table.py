# SPDX-License-Identifier: Apache-2.0
"""The tables of the load programs: medians of each allocator, and ours beside the best peer."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lab import memory_table
from lab.allocators import OURS
from lab.machine import machine
from lab.workloads.compared import Measured
from llamalloc.running import hugepages
from llamalloc.running.memory_figures import TITLES
from llamalloc.running.memory_group import WITHOUT


@dataclass
class Row:
    """The runs of one allocator under one load; `limited` are those with a memory limit."""

    allocator: str
    runs: list[Measured] = field(default_factory=list)
    limited: list[Measured] = field(default_factory=list)

    def median(self, of: Callable[[Measured], float]) -> float | None:
        values = [of(run) for run in self.runs]
        return statistics.median(values) if values else None

    def survived(self) -> str:
        """Of the runs with a limit, how many were not killed."""
        lived = sum(not run.killed for run in self.limited)
        return f"{lived} of {len(self.limited)}" if self.limited else "-"


@dataclass(frozen=True)
class Column:
    """A figure of a row. `ratio`: it is shown beside the best peer's, too; less is better."""

    head: str
    of: Callable[[Row], float | None]
    text: Callable[[float], str]
    ratio: bool = False


def times(value: float) -> str:
    return f"{value:.2f}"


def _of_memory(name: str) -> Column:
    def of(row: Row) -> float | None:
        return memory_table.median(name, [run.memory for run in row.runs if run.memory])

    show = partial(memory_table.text, name)
    return Column(memory_table.head(name), of, show, ratio=name == memory_table.RATIO)


BEST = "/ best peer"
# Charge and RSS at the end, on average and at the peak, and peak / live.
MEMORY = tuple(_of_memory(name) for name in TITLES)
SECONDS = Column("seconds", lambda r: r.median(lambda m: m.said["seconds"]), times)


def best_peer(rows: Sequence[Row], column: Column) -> float | None:
    """The least figure of all but ours; None where there is none, or it is nothing."""
    values = [column.of(row) for row in rows if row.allocator != OURS]
    return min((v for v in values if v is not None and v > 0), default=None)


def table(title: str, rows: Sequence[Row], columns: Sequence[Column], limited: str = "") -> Table:
    """A line an allocator. `limited`: the head of the column on survival, if there is one."""
    view = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    view.add_column("allocator", no_wrap=True)
    for column in columns:
        view.add_column(memory_table.wrapped(column.head), justify="right")
        if column.ratio:
            view.add_column(memory_table.wrapped(BEST), justify="right")
    if limited:
        view.add_column(memory_table.wrapped(limited), justify="right")
    for row in rows:
        cells = [text for column in columns for text in _cells(row, rows, column)]
        view.add_row(row.allocator, *cells, *([row.survived()] if limited else []),
                     style="bold" if row.allocator == OURS else "")  # fmt: skip
    return view


def _cells(row: Row, rows: Sequence[Row], column: Column) -> list[str]:
    value, best = column.of(row), best_peer(rows, column)
    texts = ["-" if value is None else column.text(value)]
    if column.ratio:
        texts.append("-" if value is None or best is None else times(value / best))
    return texts


def show(views: Sequence[Table], grouped: bool) -> None:
    """Prints them, the huge page setting, and where no group could be made, that line."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    for view in views:
        console.print(view)
    print(f"transparent huge pages: {hugepages.setting()}")
    if not grouped:
        print(WITHOUT)


def write(path: Path | None, loads: dict[str, list[Row]]) -> None:
    """All runs by load, and the machine, as JSON."""
    if path:
        rows = {name: [asdict(row) for row in found] for name, found in loads.items()}
        path.write_text(json.dumps({"machine": machine(), "loads": rows}, indent=1) + "\n")

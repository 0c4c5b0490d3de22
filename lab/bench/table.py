# SPDX-License-Identifier: Apache-2.0
"""The benchmark's table, for the terminal and the page."""

from __future__ import annotations

from rich import box
from rich.table import Table

from lab.allocators import OURS
from lab.bench.results import Cell, Line, Results
from llamalloc.formats.units import bytes_text, seconds_text

LIVE = (
    "Live: what Redis counts itself; of the other programs, what llamalloc counts in its own runs, "
    "by slot size"
)
BEHIND = 1.02  # a ratio above this is shown as behind: less is within the noise of a quiet machine


def value_text(value: float, unit: str) -> str:
    """A figure with its unit, short."""
    if unit == "B":
        return bytes_text(value)
    if unit == "ns":
        return f"{value:.2f}" if value < 1000 else seconds_text(value * 1e-9)
    return f"{value:,.0f}{unit}" if unit == "/s" else f"{value:.2f} {unit}"


def cells(line: Line, names: list[str]) -> list[str]:
    """One text an allocator, "-" where nothing was measured."""
    found = {c.allocator: c for c in line.cells}
    return [_cell(found[name], line.row.unit) if name in found else "-" for name in names]


def _cell(c: Cell, unit: str) -> str:
    return value_text(c.median, unit) + (f" ±{c.spread / 2:.0%}" if c.samples > 1 else "")


def ratio_text(line: Line) -> str:
    """Ours beside the best peer and who that is; empty where there is nothing to compare."""
    ratio, peer = line.ratio(), line.best_peer()
    return f"{ratio:.2f} {peer.allocator}" if ratio is not None and peer is not None else ""


def table(results: Results) -> Table:
    """A line for every row, a column for every allocator, and the ratio to the best peer."""
    names = [a.name for a in results.allocators]
    clock = "CPU time" if results.clock == "cpu_ns" else "wall time"
    view = Table(title=f"medians, {clock}; microbenchmarks in ns an operation",
                 title_justify="left", box=box.SIMPLE, pad_edge=False)  # fmt: skip
    view.add_column("row", no_wrap=True)
    for name in names:
        view.add_column(name, justify="right", style="bold" if name == OURS else "")
    view.add_column("ours / best peer", no_wrap=True)
    for line in results.lines():
        ratio = line.ratio()
        colour = "" if ratio is None else "red" if ratio > BEHIND else "green"
        text = ratio_text(line)
        view.add_row(line.row.name, *cells(line, names), f"[{colour}]{text}[/]" if colour else text)
    view.caption = f"± half the distance of the quartiles; a ratio under 1 is better\n{LIVE}"
    return view

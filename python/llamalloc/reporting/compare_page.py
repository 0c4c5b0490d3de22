# SPDX-License-Identifier: Apache-2.0
"""What `compare` found, as a table for the terminal and as a page."""

from __future__ import annotations

import os
import platform
import shlex
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from llamalloc import __version__
from llamalloc.formats.units import bytes_text
from llamalloc.reporting import pictures
from llamalloc.reporting.page import Page
from llamalloc.running import compare, hugepages
from llamalloc.running.compare import Column, Row

HOW = (
    "The first row is what was measured, the median of all rounds. The other rows are ratios to "
    "it: each run is divided by the run as shipped of the same round. Median of the rounds; behind "
    "it, where there are several rounds, the worst one. Less is better, except for throughput."
)
_MEANINGS = (
    "Charge: what the kernel charges to the server's control group, less page cache. A memory "
    "limit counts it. A huge page counts as a whole until the kernel splits it.",
    "RSS: the memory that is mapped into the server's processes. If there are several, memory that "
    "they share counts once, but in the peak, which is the sum of each process' own.",
    "After: when the load has ended and the server had time to settle. Mean: from the start of the "
    "load until then. Peak: from the start of the server until then.",
)
WITHOUT_GROUP = (
    "No memory control group could be made, so the charge is unknown: run as root, or in a "
    "container with its own groups."
)


def terminal_table(rows: Sequence[Row]) -> Table:
    """One line for each allocator, and one for its worst round; 80 columns hold it."""
    columns = compare.columns(rows)
    table = Table("allocator", *(c.short for c in columns), box=None, padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
        column.justify = "left" if column is table.columns[0] else "right"
    for row, texts in zip(rows, cells(rows, columns), strict=True):
        words = [text.split(" (") for text in texts[1:]]
        table.add_row(row.variant.name, *(w[0] for w in words))
        if any(len(w) > 1 for w in words):
            table.add_row("  worst", *(w[-1].rstrip(")") for w in words), style="dim")
    return table


def cells(rows: Sequence[Row], columns: Sequence[Column]) -> list[list[str]]:
    """Texts of the table: absolute for the first row, ratios below."""
    shipped = rows[0]
    first = [_absolute(_median(shipped, c), c) for c in columns]
    rest = [[r.variant.title, *(_ratio(r, shipped, c) for c in columns)] for r in rows[1:]]
    return [[shipped.variant.title, *first], *rest]


def page(rows: Sequence[Row], plan: compare.Plan) -> str:
    """The whole page."""
    columns = compare.columns(rows)
    view = Page(f"{Path(plan.command[0]).name}: allocators compared")
    view.paragraph(_sentence(rows, columns))
    view.picture(_picture(rows, columns), "ratios to the server as shipped")
    view.table(
        ("allocator", *(c.title for c in columns)), cells(rows, columns), HOW,
        marked=[i for i, r in enumerate(rows) if r.variant.learns],
    )  # fmt: skip
    if not any(c.name == "charge" for c in columns):
        view.paragraph(WITHOUT_GROUP, "note")
    view.heading("What the columns mean")
    for meaning in _MEANINGS:
        view.paragraph(meaning)
    _how(view, rows, plan)
    _all_runs(view, rows, columns)
    return view.render()


def _sentence(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    column = columns[0]
    title = f"{column.title[0].upper()}{column.title[1:]}"
    found = {r.variant.title: _ratios(r, rows[0], column) for r in rows[1:]}
    if not found:
        return "Only the server as shipped was run."
    best = min(found, key=lambda title: statistics.median(found[title]))
    median = statistics.median(found[best])
    return (
        f"{title}: least with {best}, {median:.2f} times that of the server as shipped "
        f"(worst round: {compare.worst(found[best], column):.2f})."
    )


def _how(view: Page, rows: Sequence[Row], plan: compare.Plan) -> None:
    view.heading("How it was measured")
    versions = compare.versions([r.variant for r in rows])
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    facts = {
        "Server": shlex.join(plan.command),
        "Load": plan.load,
        "Ready": plan.ready or "when it listens",
        "Rounds": f"{len(rows[0].runs)}; in each, one allocator after the other",
        "From the end of the load to the look": f"{plan.settle:g} s",
        "llamalloc": __version__ + (f", {plan.conf}" if plan.conf else ""),
        "Others": packages or "none",
        "Huge pages": hugepages.setting(),
        "Machine": f"{os.cpu_count()} processors, Linux {platform.release()}",
        "Time": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }
    for name, value in facts.items():
        view.paragraph(f"{name}: {value}")


def _all_runs(view: Page, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    view.heading("All runs")
    view.table(("allocator", "round", *(c.title for c in columns)), [
        (r.variant.title, number, *(_absolute(getattr(m, c.name), c) for c in columns))
        for r in rows
        for number, m in enumerate(r.runs, 1)
    ])  # fmt: skip


def _picture(rows: Sequence[Row], columns: Sequence[Column]) -> bytes:
    """Bars for the medians, a dot for each round."""
    shown = [c for c in columns if c.name in ("charge", "rss", "charge_peak", "per_second")][:3]
    others, titles = rows[1:], [r.variant.title for r in rows[1:]]
    height = 1.0 + 0.38 * max(len(others), 1)
    with pictures.drawing(9, height, ncols=len(shown), sharey=True, squeeze=False) as (
        figure,
        axes,
    ):
        for column, view in zip(shown, axes[0], strict=True):
            values = [_ratios(r, rows[0], column) for r in others]
            colours = [
                pictures.ACCENT if r.variant.preload.startswith("/") else pictures.SOFT
                for r in others
            ]
            medians = [statistics.median(v) for v in values]
            view.barh(titles, medians, color=colours, height=0.6)
            for title, found in zip(titles, values, strict=True):
                view.plot(found, [title] * len(found), "o", color=pictures.INK, markersize=3)
            view.axvline(1, color=pictures.INK, linewidth=0.8)
            view.set_title(column.title)
            view.set(xlabel="times as shipped")
            view.grid(axis="x")
        axes[0][0].invert_yaxis()
        return pictures.png(figure)


def _ratios(row: Row, shipped: Row, column: Column) -> list[float]:
    return list(compare.ratios(row, shipped, column))


def _median(row: Row, column: Column) -> float:
    return statistics.median(getattr(m, column.name) for m in row.runs)


def _ratio(row: Row, shipped: Row, column: Column) -> str:
    values = _ratios(row, shipped, column)
    text = f"{statistics.median(values):.2f}"
    return text if len(values) == 1 else f"{text} ({compare.worst(values, column):.2f})"


def _absolute(value: float, column: Column) -> str:
    if column.unit == "bytes":
        return bytes_text(value)
    return f"{value:,.0f}/s" if column.unit == "/s" else f"{value:.3g} ms"

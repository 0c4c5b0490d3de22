# SPDX-License-Identifier: Apache-2.0
"""A comparison of two profiles as text, and as a page with a differential flame graph."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from llamalloc.formats.profile import Profile
from llamalloc.formats.units import bytes_text, seconds_text
from llamalloc.reporting import call_tree, flame
from llamalloc.reporting.comparison import ChangedRow, Comparison, names_of
from llamalloc.reporting.frames import shortened
from llamalloc.reporting.page import Page

_LIVE, _RATE = call_tree.LIVE.label, call_tree.ALLOCATED.label
_HOW = (
    "Calls are matched by the names of their functions. A box is as wide as the larger of before "
    "and after; red holds more than before, blue less, grey the same. Click a box to enlarge it."
)


def sections(found: Comparison) -> list[tuple[str, list[ChangedRow], str]]:
    """Title, rows, view."""
    return [
        ("Live at the end: more than before", found.grown, _LIVE),
        ("Live at the end: less than before", found.shrunk, _LIVE),
        ("Allocated by time: more than before", found.faster, _RATE),
        ("Allocated by time: less than before", found.slower, _RATE),
    ]


def head(found: Comparison) -> str:
    """What is compared."""
    builds = "the same build" if found.same_build else "different builds, matched by names"
    before, after = (
        f"{file} ({seconds_text(seconds)})"
        for file, seconds in zip(found.files, found.seconds, strict=True)
    )
    return f"Before: {before}. After: {after}. {builds[0].upper()}{builds[1:]}."


def amount(value: float, view: str, signed: bool = False) -> str:
    """Bytes, by second where that is what the view compares."""
    sign = "-" if value < 0 else "+" if signed and value else ""
    return f"{sign}{bytes_text(round(abs(value)))}{'/s' if view == _RATE else ''}"


def total_rows(found: Comparison) -> list[tuple[str, str, str, str]]:
    """View, before, after, change."""
    return [
        (view, amount(b, view), amount(a, view), amount(a - b, view, True))
        for view, (b, a) in found.totals.items()
    ]


def _cells(row: ChangedRow, view: str) -> tuple[str, str, str]:
    values = (row.before[view], row.after[view])
    return (amount(row.change(view), view, True), *(amount(v, view) for v in values))


def print_comparison(found: Comparison, console: Console) -> None:
    """For a terminal."""
    console.print(f"[bold]{escape(found.program)}[/]: {escape(head(found))}")
    _print_table(console, "\nIn total", ("before", "after", "change"), total_rows(found))
    for title, rows, view in sections(found):
        if not rows:
            console.print(f"\n{title}: nothing")
            continue
        view_of = Table(title=f"\n{title}", title_justify="left", box=None, pad_edge=False)
        for name in ("change", "before", "after"):
            view_of.add_column(name, justify="right", no_wrap=True)
        view_of.add_column("allocated by (innermost first)", overflow="fold")
        for row in rows:
            view_of.add_row(*_cells(row, view), escape(shortened(row.frames, {})))
        console.print(view_of)


def _print_table(console: Console, title: str, heads: tuple[str, ...], rows: list) -> None:
    view = Table(title=title, title_justify="left", box=None, pad_edge=False)
    view.add_column("")
    for name in heads:
        view.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        view.add_row(*row)
    console.print(view)


def page(found: Comparison, before: Profile, after: Profile) -> Page:
    """The whole page."""
    made = Page(f"{found.program}: what changed")
    made.paragraph(head(found), "soft")
    made.table(("bytes", "before", "after", "change"), total_rows(found))
    made.heading("Where")
    made.paragraph(_HOW)
    views = call_tree.views_of(before, after)
    root = call_tree.difference(before, after, views, names_of(before, after)[0])
    data = flame.graph_json(root, views, diff=True)
    made.flame_graph(data, [v.label for v in views], "what changed, by call")
    for title, rows, view in sections(found):
        made.heading(title)
        if not rows:
            made.paragraph("Nothing.")
            continue
        made.table(
            ("innermost frame first", "change", "before", "after"),
            [(shortened(row.frames, {}, 8), *_cells(row, view)) for row in rows],
            code=True,
        )
    return made

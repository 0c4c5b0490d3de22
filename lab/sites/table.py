# SPDX-License-Identifier: Apache-2.0
"""The tables for the terminal: section 9.6 by way, and the loads that must not be worse."""

from __future__ import annotations

from rich import box
from rich.table import Table

from lab.sites.results import COMPARED, MIB, TYPICAL, WORST, Case, Results, worse
from lab.sites.rows import BLIND, FIRST, SECOND


def mib(value: float | None) -> str:
    """Bytes as MiB; a dash where nothing was measured."""
    if value is None:
        return "-"
    return f"{value / MIB:,.1f}" if value < 100 * MIB else f"{value / MIB:,.0f}"


def ways(results: Results) -> Table:
    """A line a case: memory after the drop in each row, and how the last of ours was made up."""
    last = SECOND if SECOND in results.rows else BLIND
    view = _table(
        "MiB after the drop (the larger of RSS without files and charge): median (worst); "
        f"goal of the second run: {TYPICAL // MIB} (worst {WORST // MIB})"
    )
    for head in ("way", "compiled", "fill"):
        view.add_column(head, no_wrap=True)
    heads = ("live", *results.rows, f"{last}: RSS", "2 MiB regions", "charge", "average", "peak",
             "fill s")  # fmt: skip
    for head in heads:
        view.add_column(head, justify="right", no_wrap=True)
    view.add_column("verdict", no_wrap=True)
    for case in results.cases:
        view.add_row(*_way(case, results.rows, last))
    if floor := results.floor:
        parts = (floor.judged, floor.rss, floor.regions, floor.charge)
        view.caption = (
            "the survivors alone, blind: {} (RSS {}, 2 MiB regions {}, charge {})".format(
                *map(mib, parts)
            )
        )
    return view


# What the group is charged for: at the end, on average, at the peak; 0 without a group.
_CHARGES = (
    lambda f: f.charge or 0,
    lambda f: f.average_charge or 0,
    lambda f: f.peak_charge or 0,
)


def _way(case: Case, rows: list[str], last: str) -> list[str]:
    parts = (lambda f: f.rss, lambda f: f.regions, *_CHARGES)
    rss, regions, *charges = (case.median(last, part) for part in parts)
    fill = case.median(last, lambda f: f.fill)
    return [
        *(case.name, case.variant, case.fill, mib(case.median(last, lambda f: f.live))),
        *(_kept(case, row) for row in rows),
        *(mib(rss), mib(regions), *(mib(charge or None) for charge in charges)),
        *("-" if fill is None else f"{fill:.1f}",),
        "failed" if case.failed else case.verdict(),
    ]


def _kept(case: Case, row: str) -> str:
    median = case.median(row, lambda f: f.judged)
    return "-" if median is None else f"{mib(median)} ({mib(case.worst(row))})"


def guarded(results: Results) -> Table:
    """A line for each load and row that learned: what it costs beside blind."""
    view = _table("Loads whose lives no site tells: learned by blind, medians; 1: as blind")
    view.add_column("load", no_wrap=True)
    view.add_column("run", no_wrap=True)
    for name, _, limit in COMPARED:
        view.add_column(f"{name} (<= {limit})", justify="right")
    view.add_column("blind after the drop, MiB", justify="right")
    view.add_column("verdict")
    for case in results.guarded:
        for row in (FIRST, SECOND) if FIRST in results.rows else (BLIND,):
            view.add_row(*_guarded(case, row))
    return view


def _guarded(case: Case, row: str) -> list[str]:
    ratios = (case.ratio(row, of) for _, of, _ in COMPARED)
    grown = worse(case, row)
    verdict = f"worse: {', '.join(grown)}" if grown else "" if row == BLIND else "not worse"
    return [
        *(case.name, row, *("-" if r is None else f"{r:.2f}" for r in ratios)),
        _kept(case, BLIND),
        "failed" if case.failed else verdict,
    ]


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", caption_justify="left", box=box.SIMPLE, pad_edge=False
    )

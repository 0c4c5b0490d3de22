# SPDX-License-Identifier: Apache-2.0
"""Summaries as text for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from llamalloc.formats.contracts import lifetime_classes
from llamalloc.formats.contracts import stats as stat_rows
from llamalloc.formats.units import bytes_text, seconds_text
from llamalloc.reporting.frames import demangled, shortened
from llamalloc.reporting.learned_summary import LearnedSummary
from llamalloc.reporting.profile_summary import ContextRow, ProfileSummary
from llamalloc.reporting.stats_summary import PINNED_BELOW, GroupRow, StatsSummary

NO_HUGE_PAGES = (
    "Huge pages were {setting}, so the heap ran on small ones: see `llamalloc doctor` for the cure."
)
FREED_AT_EXIT = "What the program freed while it ended counts as alive at the end."


def without_huge_pages(summary: StatsSummary) -> str:
    """The sentence that says that huge pages were not to be had; empty if they were."""
    missing = summary.hugepages in ("never", "disabled", "unknown")
    return NO_HUGE_PAGES.format(setting=summary.hugepages) if missing else ""


def _table(title: str, *heads: str, first: str = "") -> Table:
    view = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    view.add_column(first, overflow="fold")
    for head in heads:
        view.add_column(head, justify="right", no_wrap=True)
    return view


def print_summary(
    summary: ProfileSummary | StatsSummary | LearnedSummary, console: Console
) -> None:
    """Whatever the report is on."""
    if isinstance(summary, StatsSummary):
        print_stats(summary, console)
    elif isinstance(summary, LearnedSummary):
        print_learned(summary, console)
    else:
        print_profile(summary, console)


def learned_head(summary: LearnedSummary) -> str:
    """Whose state it is, and from how much."""
    return (
        f"{summary.program} (build {summary.build}): {summary.samples:,} samples; runs: "
        f"{summary.runs:,}, call sites: {summary.sites:,}, contexts: {summary.contexts:,}"
    )


def learned_rows(summary: LearnedSummary) -> list[tuple[str, str]]:
    """Call sites by what is known of them."""
    meanings = {row.name: row.meaning for row in lifetime_classes()}
    rows = [(meanings[name], f"{count:,}") for name, count in summary.decided.items()]
    rows.append(("depends on the size or on callers", f"{summary.differing:,}"))
    rows.append(("not decided: too few samples", f"{summary.undecided:,}"))
    return [*rows, ("not seen in the last run", f"{summary.unseen:,}")]


def print_learned(summary: LearnedSummary, console: Console) -> None:
    """Whose state it is, the gate's verdict, call sites by class."""
    console.print(escape(learned_head(summary)))
    console.print(summary.gate)
    view = _table("\nWhat was learned", "call sites")
    for row in learned_rows(summary):
        view.add_row(*row)
    console.print(view)


def print_profile(summary: ProfileSummary, console: Console) -> None:
    """Lifetimes, the largest contexts, the survivors."""
    console.print(
        f"[bold]{escape(summary.program)}[/] ({escape(summary.file)}): "
        f"{summary.sampled:,} objects sampled in {summary.contexts:,} contexts over "
        f"{seconds_text(summary.seconds)}, about {bytes_text(summary.allocated_bytes)} allocated"
    )
    view = _table("\nHow long objects lived", "objects", "of all", "bytes", "of all")
    for row in summary.lifetimes:
        view.add_row(
            row.meaning,
            f"{row.objects:,.0f}",
            f"{row.object_share:.1%}",
            bytes_text(row.bytes),
            f"{row.byte_share:.1%}",
        )
    console.print(view)
    _print_contexts("\nWho allocated most", summary.top, console)
    if summary.peak_bytes is not None:
        title = (
            f"\nWhat was alive at the peak of {bytes_text(summary.peak_bytes)}, after "
            f"{seconds_text(summary.peak_seconds)}"
        )
        _print_contexts(title, summary.at_peak, console)
    _print_contexts("\nWhat was still alive at the end", summary.survivors, console)
    if summary.exiting:
        console.print(FREED_AT_EXIT)


def _print_contexts(title: str, rows: list[ContextRow], console: Console) -> None:
    if not rows:
        console.print(f"{title}: nothing")
        return
    view = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for head in ("size", "allocated", "at peak", "alive", "median life", "longest"):
        view.add_column(head, justify="right", no_wrap=True)
    view.add_column("allocated by (innermost first)", overflow="fold")
    readable = demangled(name for row in rows for name in row.frames)
    for row in rows:
        sizes = (
            bytes_text(b) for b in (row.size, row.allocated_bytes, row.peak_bytes, row.alive_bytes)
        )
        lives = (life(ns) for ns in (row.median_lifetime, row.longest_lifetime))
        view.add_row(*sizes, *lives, escape(shortened(row.frames, readable)))
    console.print(view)


def life(nanoseconds: float | None) -> str:
    """A lifetime, or a dash where nothing died."""
    return "-" if nanoseconds is None else seconds_text(nanoseconds / 1e9)


def peak_sentence(summary: StatsSummary) -> str:
    """When most was allocated, and how much memory that took."""
    if summary.peak is None:
        return ""
    at = summary.peak
    return (
        f"At the peak, {seconds_text(summary.peak_seconds)} after the start: "
        f"{bytes_text(at.get('allocated', 0))} allocated, {bytes_text(at.get('backed', 0))} of "
        f"memory for it."
    )


def group_cells(group: GroupRow) -> tuple[str, ...]:
    """Name, pages, allocated, free slots, free blocks, pinned; a dash for what is not known."""
    blocks = "-" if group.free_blocks is None else bytes_text(group.free_blocks)
    pinned = "-" if group.pinned is None else str(group.pinned)
    sizes = bytes_text(group.allocated), bytes_text(group.free_slots), blocks
    return (group.name, str(group.pages), *sizes, pinned)


def print_stats(summary: StatsSummary, console: Console) -> None:
    """Where the memory is, what pins it, what prediction did."""
    console.print(
        f"[bold]{escape(summary.program)}[/] (pid {summary.pid}, after "
        f"{seconds_text(summary.seconds)}); model {escape(summary.model)}"
    )
    if warning := without_huge_pages(summary):
        console.print(f"[yellow]{warning}[/]")
    peak = peak_sentence(summary)
    for sentence in filter(None, (summary.memory, peak, summary.learning, summary.segregation)):
        console.print(escape(sentence))
    heads = ("pages", "allocated", "free slots", "free blocks", "pinned")
    view = _table("\nWhere the memory is", *heads)
    for g in summary.groups:
        view.add_row(*group_cells(g))
    console.print(view)
    pins = _table(f"\nWhat pins pages less than {PINNED_BELOW:.0%} in use", "objects", "pages")
    for pin in summary.pins:
        pins.add_row(f"{bytes_text(pin.size)} in {pin.group}", f"{pin.objects:,}", str(pin.pages))
    if summary.knows_pages():
        console.print(pins if summary.pins else "\nNo page is pinned by a few objects.")
    console.print(_counters(summary))


def _counters(summary: StatsSummary) -> Table:
    view = _table("\nCounters", "value")
    for row in stat_rows():
        if row.name in summary.counters:
            value = number(summary.counters[row.name], row.unit)
            view.add_row(f"{row.name}: {row.help}", value)
    for name, count in summary.predicted.items():
        if count:
            view.add_row(f"cached contexts predicted {name}", f"{count:,}")
    return view


def number(value: float, unit: str) -> str:
    """A counter in its own unit."""
    if unit == "bytes":
        return bytes_text(value)
    return seconds_text(value / 1e9) if unit == "nanoseconds" else f"{value:,.0f}"

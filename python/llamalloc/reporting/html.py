# SPDX-License-Identifier: Apache-2.0
"""Summaries as sections of an HTML page; the demo's page uses the same sections."""

from __future__ import annotations

from llamalloc.formats.contracts import stats as stat_rows
from llamalloc.formats.profile import Profile
from llamalloc.formats.units import bytes_text, seconds_text
from llamalloc.reporting import call_tree, flame, pictures
from llamalloc.reporting.frames import demangled, shortened
from llamalloc.reporting.learned_summary import LearnedSummary
from llamalloc.reporting.page import Page
from llamalloc.reporting.profile_summary import ContextRow, ProfileSummary
from llamalloc.reporting.stats_summary import PINNED_BELOW, StatsSummary
from llamalloc.reporting.text import (
    FREED_AT_EXIT,
    group_cells,
    learned_head,
    learned_rows,
    life,
    number,
    peak_sentence,
    without_huge_pages,
)


def add_summary(
    page: Page,
    summary: ProfileSummary | StatsSummary | LearnedSummary,
    profile: Profile | None = None,
) -> None:
    """Whatever the report is on; `profile`: what a ProfileSummary was made of."""
    if isinstance(summary, StatsSummary):
        add_stats(page, summary)
    elif isinstance(summary, LearnedSummary):
        add_learned(page, summary)
    else:
        add_profile(page, summary, profile)


def add_learned(page: Page, summary: LearnedSummary) -> None:
    """Whose state it is, the gate's verdict, call sites by class."""
    page.paragraph(learned_head(summary) + ".")
    page.paragraph(summary.gate)
    page.heading("What was learned")
    page.table(("lifetime", "call sites"), learned_rows(summary))


def add_profile(page: Page, summary: ProfileSummary, profile: Profile | None = None) -> None:
    """Flame graph, live bytes along time, lifetimes, the largest contexts, peak, survivors."""
    page.paragraph(
        f"{summary.sampled:,} objects sampled in {summary.contexts:,} contexts over "
        f"{seconds_text(summary.seconds)}; about {bytes_text(summary.allocated_bytes)} allocated, "
        f"{bytes_text(summary.alive_bytes)} alive at the end."
    )
    if profile is not None:
        add_flame_graph(page, profile)
    add_history(page, summary)
    add_lifetimes(page, summary)
    page.heading("Who allocated most")
    _contexts(page, summary.top)
    page.heading("What was still alive at the end")
    if summary.exiting:
        page.paragraph(FREED_AT_EXIT)
    _contexts(page, summary.survivors)


def add_flame_graph(page: Page, profile: Profile) -> None:
    """Who holds and who allocates memory, by call."""
    page.heading("Who uses memory")
    page.paragraph(
        "Calls run downwards, from the program to the call that allocates. A box is as wide as "
        "the bytes that were allocated in it and below it. Click a box to enlarge it."
    )
    views = call_tree.views_of(profile)
    root = call_tree.tree(profile, views, call_tree.readable_names([profile]))
    data = flame.graph_json(root, views)
    page.flame_graph(data, [view.label for view in views], "bytes by call")


def add_history(page: Page, summary: ProfileSummary) -> None:
    """Live bytes along time, and who held them at the peak."""
    page.heading("Live memory along time")
    if summary.timeline is None:
        page.paragraph(
            "The profile does not hold it: an older version wrote it, or it was taken of a process "
            "that was not asked for a profile before."
        )
    else:
        page.picture(
            pictures.timeline(summary.timeline, summary.peak_seconds),
            "live bytes along time by call site",
            f"Estimated from samples, one in {bytes_text(summary.interval)}, as recorded in the "
            "profile: the call sites that held most, and the rest in grey.",
        )
    if summary.peak_bytes is None:
        return
    page.heading("What was alive at the peak")
    page.paragraph(
        f"Most was alive {seconds_text(summary.peak_seconds)} after sampling began: "
        f"{bytes_text(summary.peak_bytes)}."
    )
    _contexts(page, summary.at_peak)


def add_lifetimes(page: Page, summary: ProfileSummary) -> None:
    """The picture after the paper's figure 2, and the same as numbers."""
    page.heading("How long objects lived")
    page.picture(
        pictures.lifetimes(summary),
        "share of objects by lifetime",
        "Share of all objects by how long they lived, both axes logarithmic. The bands are the "
        "lifetime classes, coloured by the kind of page; the red bar is what was never freed.",
    )
    page.table(
        ("lifetime", "objects", "of all", "bytes", "of all"),
        [
            (r.meaning, f"{r.objects:,.0f}", f"{r.object_share:.2%}", bytes_text(r.bytes),
             f"{r.byte_share:.1%}")
            for r in summary.lifetimes
        ],
    )  # fmt: skip


def _contexts(page: Page, rows: list[ContextRow]) -> None:
    if not rows:
        page.paragraph("Nothing.")
        return
    readable = demangled(name for row in rows for name in row.frames)
    page.table(
        (
            "innermost frame first",
            "size",
            "allocated",
            "at peak",
            "still alive",
            "median life",
            "longest",
        ),
        [
            (
                shortened(row.frames, readable, 8),
                bytes_text(row.size),
                bytes_text(row.allocated_bytes),
                bytes_text(row.peak_bytes),
                bytes_text(row.alive_bytes),
                life(row.median_lifetime),
                life(row.longest_lifetime),
            )
            for row in rows
        ],
        code=True,
    )


def add_stats(page: Page, summary: StatsSummary) -> None:
    """Where the memory is, what pins it, all counters."""
    page.paragraph(
        f"pid {summary.pid}, {seconds_text(summary.seconds)} after its start; "
        f"model: {summary.model}; huge pages: {summary.hugepages}."
    )
    if warning := without_huge_pages(summary):
        page.paragraph(warning, "note")
    if summary.memory:
        page.paragraph(summary.memory)
    if summary.peak is not None:
        page.paragraph(peak_sentence(summary))
    add_learning(page, summary)
    page.heading("Where the memory is")
    add_memory(page, summary)
    page.heading("Counters")
    columns = [summary.counters, *([summary.peak] if summary.peak is not None else [])]
    counters = [
        (row.name, row.help, *(number(column.get(row.name, 0), row.unit) for column in columns))
        for row in stat_rows()
        if row.name in summary.counters
    ]
    heads = ("counter", "what it counts", "value", "at the peak")
    page.table(heads[: 2 + len(columns)], counters)


def add_learning(page: Page, summary: StatsSummary) -> None:
    """What is learned in process, and whether objects are placed by it; nothing if it is off."""
    for sentence in filter(None, (summary.learning, summary.segregation)):
        page.paragraph(sentence)


def add_memory(page: Page, summary: StatsSummary) -> None:
    """Groups and what pins their pages."""
    page.picture(pictures.where_memory_is(summary), "bytes by page group, and page occupancy")
    page.table(
        ("page group", "huge pages", "allocated", "free slots", "free blocks", "pinned pages"),
        [group_cells(g) for g in summary.groups],
        caption=f"A page is pinned when less than {PINNED_BELOW:.0%} of it is in use.",
    )  # fmt: skip
    if summary.pins:
        page.table(
            ("what pins pages", "objects", "pinned pages"),
            [
                (f"{bytes_text(p.size)} in {p.group}", f"{p.objects:,}", p.pages)
                for p in summary.pins
            ],
            caption="Objects of this size that sit on pinned pages, by how many pages they hold.",
        )
    elif summary.knows_pages():
        page.paragraph("No page is pinned by a few objects.")

# SPDX-License-Identifier: Apache-2.0
"""A look at a running process as text for the terminal (`llamalloc top`, `llamalloc ps`)."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from llamalloc.reporting.frames import demangled, shortened
from llamalloc.running import live, published
from llamalloc.running.procmem import read_memory

_MOST_SITES = 15


def size(number: float | None) -> str:
    """Bytes as MiB, with one decimal below 100."""
    if number is None:
        return "-"
    mib = number / (1 << 20)
    return f"{mib:,.1f} MiB" if abs(mib) < 100 else f"{mib:,.0f} MiB"


def page(before: live.Look, after: live.Look) -> Group:
    """The whole view."""
    return Group(_head(after), _memory(before, after), _groups(after), *_sites(before, after))


def process_rows(processes: Sequence[published.Published]) -> list[str]:
    """One line a process, with a heading."""
    rows = [("PID", "LIVE", "HEAP", "RSS", "HTTP", "COMMAND")]
    for process in processes:
        stats = published.figures(process)
        try:
            rss = size(read_memory(process.pid).rss)
        except OSError:
            rss = "-"
        rows.append(
            (str(process.pid), size(stats["allocated"]), size(stats["backed"]), rss,
             process.text("http") or "-", published.command_of(process.pid))
        )  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return ["  ".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=False)) + "  " + row[5]
            for row in rows]  # fmt: skip


def _head(look: live.Look) -> Text:
    where = f", http {look.address}" if look.address else ""
    text = Text(f"{look.command} (PID {look.pid}{where})", style="bold")
    if look.gate:
        text.append(f"\n{look.gate}", style="not bold")
    elif look.placement:
        text.append("\nobjects are placed by lifetime", style="not bold")
    return text


def _memory(before: live.Look, after: live.Look) -> Table:
    stats, change = after.stats, live.rates(before, after)
    coverage = "-" if after.coverage is None else f"{100 * after.coverage:.0f} %"
    table = Table.grid(padding=(0, 3))
    rows = [
        ("live", size(stats["allocated"]), f"{size(change['allocated'])}/s"),
        ("heap", size(stats["backed"]), f"{stats['huge_pages_used']:,} huge pages in use"),
        ("resident", size(after.rss), f"{coverage} on huge pages"),
        ("charge", size(after.charge), "of its control group"),
        ("broken pages", f"{stats['huge_pages_broken']:,}", "on small pages"),
        ("taken", f"{change['huge_pages_acquired']:,.1f}/s", "huge pages from the system"),
        ("returned", f"{change['huge_pages_released']:,.1f}/s", "huge pages to the system"),
        ("threads", f"{stats['thread_caches']:,}", "with a cache"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _groups(look: live.Look) -> Table:
    table = Table("page group", "huge pages", "slots in use", "free slots", box=None)
    for group in look.groups:
        if group["pages"] or group["slots"]:
            table.add_row(group["group"], f"{group['pages']:,}", size(group["slots"]),
                          size(group["free_slots"]))  # fmt: skip
    return table


def _sites(before: live.Look, after: live.Look) -> list[Table | Text]:
    rows = live.growth(before, after)[:_MOST_SITES]
    if not rows:
        return [] if after.address else [Text("call sites: only with the option http", style="dim")]
    readable = demangled(name for name, _, _ in rows)
    table = Table("call site", "in use", "change", box=None)
    for name, bytes_now, change in rows:
        table.add_row(escape(shortened((name,), readable)), size(bytes_now), size(change))
    note = [Text(after.sites_note, style="dim")] if after.sites_note else []
    return [table, *note]

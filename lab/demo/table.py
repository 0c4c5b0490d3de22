# SPDX-License-Identifier: Apache-2.0
"""The demo's one table, for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from lab.demo.results import Results
from llamalloc.running.memory_group import WITHOUT


def mib(value: float | None) -> str:
    """Bytes as whole MiB; a dash where nothing was measured."""
    return "-" if value is None else f"{value / 2**20:,.0f}"


def ratio(value: float | None) -> str:
    """A dash where nothing was measured."""
    return "-" if value is None else f"{value:.2f}"


def table(results: Results) -> Table:
    """A row for every allocator: what it is charged for after the drop, on average and at its peak,
    RSS after the drop, huge pages, requests per second."""
    title = f"redis-server {results.workload.settle:.0f} seconds after the load dropped"
    view = Table(
        title=title, title_justify="left", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0)
    )
    view.add_column("allocator")
    heads = ("charge\nMiB", "charge\n/live", "mean\nMiB", "peak\nMiB", "peak\n/live")
    for head in (*heads, "RSS\nMiB", "RSS\n/live", "huge", "req/s"):
        view.add_column(head, justify="right", no_wrap=True)
    for row in results.rows():
        view.add_row(
            row.title + (f"  ({row.faults} faults)" if row.faults else ""),
            *(mib(row.charge), ratio(row.charge_ratio), mib(row.average_charge)),
            *(mib(row.peak_charge), ratio(row.peak_over_live)),
            *(mib(row.rss), ratio(row.ratio), f"{row.coverage:.0%}"),
            f"{row.requests_per_second:,.0f}",
            style="bold" if row.allocator == "learned" else "",
        )
    view.caption = (
        f"live: {mib(results.live())} MiB · huge pages: {results.hugepages} · "
        "peak /live: by the most that Redis held"
    )
    if not results.is_charged():
        view.caption += f"\n{WITHOUT}"
    return view

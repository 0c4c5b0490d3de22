# SPDX-License-Identifier: Apache-2.0
"""The demo's one table, for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from lab.demo.results import Results


def mib(value: float) -> str:
    """Bytes as whole MiB."""
    return f"{value / 2**20:,.0f}"


def table(results: Results) -> Table:
    """A row for every allocator: memory after the drop, huge pages, requests per second."""
    title = f"redis-server {results.workload.settle:.0f} seconds after the load dropped"
    view = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    view.add_column("allocator")
    for head in ("RSS MiB", "RSS/live", "huge", "peak MiB", "req/s", "speed"):
        view.add_column(head, justify="right", no_wrap=True)
    rows = results.rows()
    shipped = next((r.requests_per_second for r in rows if r.allocator == "jemalloc"), None)
    for row in rows:
        view.add_row(
            row.title + (f"  ({row.faults} faults)" if row.faults else ""),
            mib(row.rss),
            f"{row.ratio:.2f}",
            f"{row.coverage:.0%}",
            mib(row.peak_rss),
            f"{row.requests_per_second:,.0f}",
            f"{row.requests_per_second / shipped:.0%}" if shipped else "",
            style="bold" if row.allocator == "learned" else "",
        )
    view.caption = f"live: {mib(results.live())} MiB · huge pages: {results.hugepages}"
    return view

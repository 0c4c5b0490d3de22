# SPDX-License-Identifier: Apache-2.0
"""A service in a control group whose limit is 1.2 times its payload; bursts freed twenty times.

    python -m lab.workloads.limited [--limit 1.2] [--allocators llamalloc,glibc]

Each allocator runs without a limit first, then with it. Of the first the table shows what the
kernel charges, and RSS beside it, at the end, on average and at the peak, and the peak over the
payload. It says which of the second were killed for memory. Of both it shows how long malloc and
free took: the 99.9th percentile and the longest call.
"""

from __future__ import annotations

import argparse
import statistics

from lab.command import exit_status
from lab.workloads import compared, compared_table
from lab.workloads.compared_table import MEMORY, Column, Row
from lab.workloads.recipe import WorkloadError
from lab.workloads.rounds import Load, Rounds

LIMIT = 1.2


def _said(head: str, name: str, unit: float, limited: bool = False) -> Column:
    """The median of one of the program's figures, over the runs that were not killed."""

    def of(row: Row) -> float | None:
        runs = row.limited if limited else row.runs
        values = [run.said[name] for run in runs if not run.killed]
        return statistics.median(values) if values else None

    return Column(head, of, lambda value: f"{value / unit:,.1f}")


COLUMNS = (
    *MEMORY,
    _said("malloc p99.9 us", "malloc_p999", 1e3),
    _said("limited", "malloc_p999", 1e3, True),
    _said("longest malloc ms", "malloc_most", 1e6),
    _said("limited", "malloc_most", 1e6, True),
    _said("longest free ms", "free_most", 1e6),
    _said("limited", "free_most", 1e6, True),
)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call is the load that the documents quote."""
    parser = compared.parser("limited", __doc__)
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"times live ({LIMIT})")
    parser.add_argument("--live", type=int, default=200, help="MiB at the top of a burst (200)")
    parser.add_argument("--bursts", type=int, default=20, help="how many (20)")
    parser.add_argument(
        "--churn", default="1,100", help="objects replaced in each burst; a table each (1,100)"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prints a table; 0, or 2 if something could not run."""
    options = arguments(argv)
    return exit_status("limited", lambda: _run(options), (WorkloadError, ValueError))


def _run(options: argparse.Namespace) -> int:
    runs = Rounds(options, "limited")
    found = runs.run([load(churn, options) for churn in options.churn.split(",")])
    title = f"{options.live} MiB live at the top of {options.bursts} bursts, {{}} replaced in each"
    head = f"alive at {options.limit:g} x live"
    views = [compared_table.table(title.format(n), r, COLUMNS, head) for n, r in found.items()]
    compared_table.show(views, runs.grouped)
    compared_table.write(options.json, found)
    return 0


def load(churn: str, options: argparse.Namespace) -> Load:
    """The program's arguments for one number of replaced objects."""
    words = ("--live", str(options.live), "--bursts", str(options.bursts), "--churn", churn)
    return Load(churn, "limited", (*words, "--wait"), options.limit)


if __name__ == "__main__":
    raise SystemExit(main())

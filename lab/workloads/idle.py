# SPDX-License-Identifier: Apache-2.0
"""What is kept 15 s after 160 MiB were freed, in a process that makes no call meanwhile.

    python -m lab.workloads.idle [--seconds 15] [--stays 20] [--allocators llamalloc,glibc]

Four threads allocate, fill and free small, mixed or large objects, and block. With --stays some of
each hundred stay, up to a hundred in a row: they keep pages, or parts of them. The table shows the
charge of the control group then, less the charge before the burst, and the same of RSS. Beside it
stand both without that difference, at the end, on average over the run and at the peak; the peak
over the burst.
"""

from __future__ import annotations

import argparse

from lab.command import exit_status
from lab.memory_table import mib
from lab.workloads import compared, compared_table
from lab.workloads.compared import Measured, Used
from lab.workloads.compared_table import MEMORY, Column, Row
from lab.workloads.recipe import WorkloadError
from lab.workloads.rounds import Load, Rounds

SIZES = ("small", "mixed", "large")


def kept(run: Measured, figure: str) -> int:
    """Bytes more than before the burst."""

    def of(used: Used | None) -> int:
        return getattr(used, figure)

    return of(run.after) - of(run.before)


def _column(head: str, figure: str, ratio: bool = False) -> Column:
    def of(row: Row) -> float | None:
        return row.median(lambda run: kept(run, figure))

    return Column(head, of, mib, ratio)


COLUMNS = (
    _column("kept, charge MiB", "charge", ratio=True),
    _column("kept, RSS MiB", "rss"),
    _column("kept, huge MiB", "huge"),
    *MEMORY,
)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call is the load that the documents quote."""
    parser = compared.parser("idle", __doc__)
    parser.set_defaults(runs=1)
    parser.add_argument("--only", default="", help=f"of {','.join(SIZES)}; default: all")
    parser.add_argument("--seconds", type=float, default=15.0, help="of idleness (15)")
    parser.add_argument("--burst", type=int, default=160, help="MiB (160)")
    parser.add_argument("--stays", type=int, default=0, help="of each hundred objects (0)")
    parser.add_argument("--end", action="store_true", help="the threads end after the burst")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prints a table for each kind of sizes; 0, or 2 if something could not run."""
    options = arguments(argv)
    return exit_status("idle", lambda: _run(options), (WorkloadError, ValueError))


def _run(options: argparse.Namespace) -> int:
    names = compared.only(options, SIZES, "sizes")
    runs = Rounds(options, "idle")
    found = runs.run([load(name, options) for name in names])
    freed = f"{options.burst} MiB" + (f" but {options.stays} %" if options.stays else "")
    title = f"{options.seconds:g} s after {freed} were freed: {{}} objects"
    views = [compared_table.table(title.format(n), rows, COLUMNS) for n, rows in found.items()]
    compared_table.show(views, runs.grouped)
    compared_table.write(options.json, found)
    return 0


def load(name: str, options: argparse.Namespace) -> Load:
    """The program's arguments for objects of these sizes."""
    stays = ["--stays", str(options.stays)] if options.stays else []
    end = ["--end"] if options.end else []
    words = ("--sizes", name, "--burst", str(options.burst), *stays, *end)
    return Load(name, "idle", words, settle=options.seconds)


if __name__ == "__main__":
    raise SystemExit(main())

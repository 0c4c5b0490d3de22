# SPDX-License-Identifier: Apache-2.0
"""Kinds of objects take turns: 180 MiB of one are freed before 180 MiB of the next are allocated.

    python -m lab.workloads.alternate [--only large] [--allocators llamalloc,glibc]

For each pair of kinds: what the kernel charges, and RSS beside it, at the end, on average and at
the peak; the peak over the payload. Then a run under a limit of 1.25 times the payload in a real
control group: killed for memory, or not.
"""

from __future__ import annotations

import argparse

from lab.command import exit_status
from lab.workloads import compared, compared_table
from lab.workloads.compared_table import MEMORY, SECONDS
from lab.workloads.recipe import WorkloadError
from lab.workloads.rounds import Load, Rounds

LIMIT = 1.25
PAIRS = {
    "large": ("9 MiB and 200 B", ("9437184", "200")),
    "shuffled": ("the same, freed in random order", ("--shuffled", "9437184", "200")),
    "threads": (
        "the same, two threads in turn",
        ("--shuffled", "--threads", "2", "9437184", "200"),
    ),
    "medium": ("300 KiB and 48 B", ("307200", "48")),
    "scattered": ("the same, freed in random order", ("--shuffled", "307200", "48")),
    "small": ("small sizes in turn", ("16", "48", "112", "256", "400", "640", "1024", "3000")),
    "mapped": ("mappings of 5 MiB and runs of 512 KiB", ("5242880", "524288")),
    "unfit": ("mappings of 9 MiB and runs of 700 KiB", ("9437184", "716800")),
}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call measures all pairs."""
    parser = compared.parser("alternate", __doc__)
    parser.add_argument("--only", default="", help=f"of {','.join(PAIRS)}; default: all")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"times live ({LIMIT})")
    parser.add_argument("--turns", type=int, default=20, help="of all kinds together (20)")
    parser.add_argument("--turn", type=int, default=180, help="MiB of one turn (180)")
    parser.add_argument("--base", type=int, default=28, help="MiB that stay (28)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prints a table for each pair; 0, or 2 if something could not run."""
    options = arguments(argv)
    return exit_status("alternate", lambda: _run(options), (WorkloadError, ValueError))


def _run(options: argparse.Namespace) -> int:
    names = compared.only(options, PAIRS, "pair")
    runs = Rounds(options, "alternate")
    found = runs.run([load(name, options) for name in names])
    columns = (*MEMORY, SECONDS)
    head = f"alive at {options.limit:g} x live"
    views = [compared_table.table(PAIRS[n][0], rows, columns, head) for n, rows in found.items()]
    compared_table.show(views, runs.grouped)
    compared_table.write(options.json, found)
    return 0


def load(name: str, options: argparse.Namespace) -> Load:
    """The program's arguments for one pair."""
    sizes = (
        "--turns",
        str(options.turns),
        "--turn",
        str(options.turn),
        "--base",
        str(options.base),
    )
    return Load(name, "alternate", (*sizes, "--wait", *PAIRS[name][1]), options.limit)


if __name__ == "__main__":
    raise SystemExit(main())

# SPDX-License-Identifier: Apache-2.0
"""Twenty zeroed buffers of 5 to 25 MiB; one at random is replaced by one of another size.

    python -m lab.workloads.buffers [--allocators llamalloc,glibc]
    python -m lab.workloads.buffers --count 3 --least 2 --most 8 --requests
    python -m lab.workloads.buffers --count 45 --least 1 --most 8 --requests --pause 200
    python -m lab.workloads.buffers --count 1500 --least 340 --most 360 --kib --steps 60000

Prints the time that it takes; what the kernel charges, and RSS beside it, at the end, on average
and at the peak; the peak over the payload.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from lab.command import exit_status
from lab.workloads import compared, compared_table
from lab.workloads.compared_table import MEMORY, SECONDS
from lab.workloads.recipe import WorkloadError
from lab.workloads.rounds import Load, Rounds


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call is the load that the documents quote."""
    parser = compared.parser("buffers", __doc__)
    for name, usual, what in (("count", 20, "buffers"), ("least", 5, "MiB"), ("most", 25, "MiB"),
                              ("steps", 400, "replacements")):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=usual, help=f"{what} ({usual})")
    parser.add_argument("--kib", action="store_true", help="the sizes are in KiB")
    all_new = "each step frees all and allocates as many of the same sizes"
    parser.add_argument("--requests", action="store_true", help=all_new)
    pause = "milliseconds in which nothing is in use, between two --requests (0)"
    parser.add_argument("--pause", type=int, default=0, help=pause)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prints a table; 0, or 2 if something could not run."""
    options = arguments(argv)
    return exit_status("buffers", lambda: _run(options), (WorkloadError, ValueError))


def _run(options: argparse.Namespace) -> int:
    names = ("count", "least", "most", "steps")
    words = [word for name in names for word in (f"--{name}", str(getattr(options, name)))]
    words += [word for word in ("--requests", "--kib") if getattr(options, word[2:])]
    if options.pause:
        words += ["--pause", str(options.pause)]
    runs = Rounds(options, "buffers")
    found = runs.run([Load("buffers", "buffers", (*words, "--wait"))])
    columns = (replace(SECONDS, ratio=True), *MEMORY)
    of_each = " a request" if options.requests else ""
    unit = "KiB" if options.kib else "MiB"
    title = f"{options.count} buffers of {options.least} to {options.most} {unit}{of_each}"
    compared_table.show([compared_table.table(title, found["buffers"], columns)], runs.grouped)
    compared_table.write(options.json, found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

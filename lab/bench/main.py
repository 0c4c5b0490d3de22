# SPDX-License-Identifier: Apache-2.0
"""Runs rows x allocators, interleaved, and shows medians beside the best peer.

Each sample is a process of its own; one round takes every allocator once in every row, so that a
neighbour on the machine disturbs all alike. Of programs it shows what the kernel charges, and RSS
beside it, at the end, on average and at the peak, and peak / live. Results: table,
OUT/results.json, OUT/report.html.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from lab import allocators, peers, progress
from lab.allocators import Allocator
from lab.bench import rows
from lab.bench.results import Results
from lab.bench.rows import Row
from lab.bench.table import table
from lab.command import exit_status
from lab.machine import machine
from lab.places import LIBRARY, ROOT
from llamalloc.running.memory_group import WITHOUT

EXAMPLES = """examples:
  make bench                                              everything: about 20 minutes
  make bench BENCH_ARGS="--quick"                         a minute, no figures to quote
  make bench BENCH_ARGS="--rows pair_64,churn_10k --allocators llamalloc,snmalloc --rounds 9"
  make bench BENCH_ARGS="--rows programs --lib /path/to/another/libllamalloc.so"
"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The benchmark's own options; a plain call is the whole benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--rows", default="", help="names by comma, or micro, or programs")
    parser.add_argument("--allocators", default="", help=f"of {','.join(allocators.NAMES)}")
    parser.add_argument("--rounds", type=int, default=5, help="samples a cell (default 5)")
    parser.add_argument("--seconds", type=float, default=0.3, help="a sample's time (default 0.3)")
    parser.add_argument("--quick", action="store_true", help="one short round and small programs")
    parser.add_argument("--cpu", action="store_true", help="compare CPU time, for a busy machine")
    parser.add_argument("--lib", type=Path, default=LIBRARY, help="our library (this build's)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "bench", help="folder to write")
    options = parser.parse_args(argv)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be more than nothing")
    if options.quick:
        options.rounds, options.seconds = 1, min(options.seconds, 0.05)
    return options


def main(argv: list[str] | None = None) -> int:
    """0 if every sample was taken, 1 if some failed, 2 if the benchmark could not run."""
    options = arguments(argv)
    return exit_status("bench", lambda: _run(options), (ValueError, rows.RowError))


def _run(options: argparse.Namespace) -> int:
    names = allocators.chosen([n for n in options.allocators.split(",") if n])
    wanted = rows.chosen([n for n in options.rows.split(",") if n], rows.all_rows())
    built = {allocators.BUILT[name] for name in names if name in allocators.BUILT}
    failed = peers.ensure(built, lambda text: print(f"bench: {text}", flush=True))
    found, missing = allocators.present(names, options.lib, failed)
    for line in missing:
        print(f"bench: {line}", flush=True)
    clock = "cpu_ns" if options.cpu else "ns"
    results = Results(machine(), found, wanted, clock, missing)
    _measure(results, options)
    return _show(results, options)


def _measure(results: Results, options: argparse.Namespace) -> None:
    steps = [
        (turn, row, a)
        for turn in range(1, options.rounds + 1)
        for row in results.rows
        for a in _turned(results.allocators, turn)
    ]
    broken: set[tuple[str, str]] = set()
    with progress.steps("bench", len(steps)) as shown:
        for turn, row, allocator in steps:
            shown.now(f"round {turn} of {options.rounds}: {row.name} on {allocator.name}")
            if (row.name, allocator.name) not in broken:
                _one(results, row, allocator, options, broken)
            shown.advance()


def _turned(found: list[Allocator], turn: int) -> list[Allocator]:
    """Another one first in each round: whoever follows a hungry one does not always do so."""
    start = (turn - 1) % len(found) if found else 0
    return found[start:] + found[:start]


def _one(
    results: Results,
    row: Row,
    allocator: Allocator,
    options: argparse.Namespace,
    broken: set[tuple[str, str]],
) -> None:
    try:
        results.add(row, allocator, rows.sample(row, allocator, options.seconds, options.quick))
    except (rows.RowError, subprocess.TimeoutExpired) as error:
        broken.add((row.name, allocator.name))
        results.faults.append(str(error))


def _show(results: Results, options: argparse.Namespace) -> int:
    Console(width=None if sys.stdout.isatty() else 200).print(table(results))
    if not results.is_charged():
        print(f"bench: {WITHOUT}")
    for fault in results.faults:
        print(f"bench: FAULT {fault}")
    from lab.bench import page  # matplotlib: only where something is drawn

    results.write(options.out / "results.json")
    page.write(results, options.out / "report.html")
    print(f"bench: {options.out / 'report.html'} and results.json beside it")
    return 1 if results.faults else 0

# SPDX-License-Identifier: Apache-2.0
"""Lists and runs recipes of real programs (workloads/README.md).

`run` prints what the kernel charges to the program, and its RSS, at the peak, on average and at the
end (where a program ends by itself: when it was last seen); and the peak over the most that was
live, where Redis or llamalloc counts that.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from lab.command import exit_status
from lab.workloads import programs, runner
from lab.workloads.recipe import WorkloadError
from llamalloc.running.memory_figures import Sizes
from llamalloc.running.memory_group import WITHOUT

EXAMPLES = """examples:
  python -m lab.workloads list
  python -m lab.workloads run rocksdb
  python -m lab.workloads run images --preload jemalloc
  python -m lab.workloads run redis --under "llamalloc record -o redis.pb.gz"
  python -m lab.workloads run mariadb --scale 0.1 --under "llamalloc trace -o mariadb.trace"
  python -m lab.workloads run clang --under "llamalloc run --model clang.model"
"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """`list`, or `run` with its options."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.workloads",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="the workloads, how long each takes, and what is missing here")
    run = verbs.add_parser("run", help="one program, plainly, on an allocator or under a recorder")
    run.add_argument("name", help="of `list`")
    run.add_argument(
        "--under",
        default="",
        metavar="COMMAND",
        help="words before the program, in quotes; `llamalloc` is this very version",
    )
    run.add_argument(
        "--preload",
        default="",
        metavar="LIB",
        help="glibc, jemalloc, gperftools, mimalloc, or a library",
    )
    run.add_argument("--scale", type=float, default=1.0, help="size of the load (default 1)")
    run.add_argument("--seed", type=int, default=1, help="of the load's random choices (default 1)")
    run.add_argument("--json", type=Path, help="write figures and memory over time here")
    options = parser.parse_args(argv)
    if options.verb == "run" and options.scale <= 0:
        parser.error("--scale must be more than nothing")
    return options


def main(argv: list[str] | None = None) -> int:
    """0, or 2 if the workload could not run or failed."""
    options = arguments(argv)
    if options.verb == "list":
        return _list()
    return exit_status("workloads", lambda: _run(options), (WorkloadError,))


def _list() -> int:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for head in ("name", "seconds", "ready", "what runs, and what it does to memory"):
        table.add_column(head, justify="right" if head == "seconds" else "left")
    for one in programs.ALL:
        about = f"{one.title}\n[dim]{one.memory}[/dim]"
        table.add_row(one.name, str(one.seconds), "no" if one.missing() else "yes", about)
    console = Console()
    console.print(table)
    console.print("\nPackages that are missing: scripts/setup.sh packages workloads", style="dim")
    return 0


def _run(options: argparse.Namespace) -> int:
    name, start = options.name, time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - start:4.0f} s] {name}: {text}", file=sys.stderr, flush=True)

    how = runner.Options(options.under, options.preload, options.scale, options.seed)
    how = replace(how, live="llamalloc" in options.under + Path(options.preload).name)
    recipe = programs.find(name)
    outcome = runner.run(recipe, how, say)
    if options.json:
        options.json.write_text(json.dumps(asdict(outcome)) + "\n")
    print(f"{name}: {outcome.seconds:.1f} s, {outcome.cpu:.1f} s of processor")
    print("\n".join(memory(outcome, "at the end" if recipe.is_server() else "last seen")))
    return 0


def memory(outcome: runner.Outcome, end: str) -> list[str]:
    """Lines on charge and RSS: at the peak, on average and at the end; and on what was live. `end`
    says which moment that is: what a program that ends by itself holds at last is chance."""
    found = outcome.memory()
    huge = outcome.huge / outcome.anonymous if outcome.anonymous else 0.0
    lines = [_memory("charge", found.charge, end) if found.charge else WITHOUT]
    if outcome.launched and found.charge:
        lines[0] += "; with the launcher, which stays beside the program"
    lines.append(f"{_memory('RSS', found.rss, end)}; {huge:.0%} of anonymous memory on huge pages")
    if found.over_live:
        lines.append(f"  live:   most {_mib(found.live)}, peak / live {found.over_live:.2f}")
    return lines


def _memory(what: str, found: Sizes, end: str) -> str:
    peak, average, last = (_mib(value) for value in (found.peak, found.average, found.end))
    return f"  {what + ':':<8}peak {peak}, average {average}, {end} {last}"


def _mib(value: int) -> str:
    return f"{value / 2**20:,.0f} MiB"

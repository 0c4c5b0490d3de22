# SPDX-License-Identifier: Apache-2.0
"""Section 9.6 of ASPLOS 2020 by the way in which a program tells its two allocation sites apart.

A program fills 1 GiB with short-lived objects of 64 bytes and 5 MiB of survivors among them, and
frees the rest. Each way runs blind, then learning with an empty state (first), then in a fresh
process with the state that was kept (second). Return addresses prove that each program is compiled
as its way says. Loads whose lives no site tells follow, where learning must not cost.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from lab import progress
from lab.command import exit_status
from lab.launcher import LauncherError
from lab.machine import machine
from lab.places import LIBRARY, ROOT
from lab.sites import build, plan, rows, table
from lab.sites.plan import Step
from lab.sites.process import Figures, RunError
from lab.sites.results import Results
from lab.sites.ways import VARIANTS, WAYS
from llamalloc.running.memory_group import WITHOUT

EXAMPLES = """examples:
  python -m lab.sites                                   everything, 3 times: about two hours
  python -m lab.sites --variants O2 --fill full --runs 2 --again 5 --guards none
                                                        ten second runs of each way: 12 minutes
  python -m lab.sites --ways folded,wrapper3 --variants O2 --peers jemalloc,glibc --guards none
  python -m lab.sites --next-build --model --variants O2 --fill full --runs 1 --guards none
                                                        a model of the build before: 10 minutes
  python -m lab.sites --conf segregate:always --fill full --keep    leaves state and statistics
"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """What is measured; a plain call measures all."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.sites", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names, variants = (",".join(one.name for one in some) for some in (WAYS, VARIANTS))
    parser.add_argument("--ways", default="", help=f"of {names}, or none; default: all")
    parser.add_argument("--variants", default="", help=f"of {variants}; default: all")
    parser.add_argument("--fill", choices=("full", "paced", "both"), default="both")
    parser.add_argument("--pace", type=int, default=200, help="MiB a second when paced (200)")
    parser.add_argument("--runs", type=int, default=3, help="of each row (3)")
    parser.add_argument("--again", type=int, default=1,
                        help="second runs after each first one, from its state (1)")  # fmt: skip
    parser.add_argument("--next-build", action="store_true",
                        help="second runs are of another build of each program")  # fmt: skip
    parser.add_argument("--model", action="store_true",
                        help="second runs place by a model of the first one's profile")  # fmt: skip
    parser.add_argument("--peers", default="", help="other allocators too, by comma, or all")
    parser.add_argument("--guards", choices=("all", "none"), default="all",
                        help="loads that learning must not make worse")  # fmt: skip
    parser.add_argument("--conf", default="", help="options of the rows that learn: key:value,...")
    parser.add_argument("--peak", type=int, default=1024, help="MiB (1024)")
    parser.add_argument("--survivors", type=int, default=5120, help="KiB (5120)")
    parser.add_argument("--waves", type=int, default=1, help="fills and drops (1)")
    parser.add_argument("--warm", type=int, default=0,
                        help="MiB of a small first wave, to learn from (none)")  # fmt: skip
    parser.add_argument("--settle", type=float, default=4.0,
                        help="seconds from the drop to the measurement (4)")  # fmt: skip
    parser.add_argument("--lib", type=Path, default=LIBRARY, help="our library (this build's)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "sites", help="folder to write")
    parser.add_argument("--keep", action="store_true", help="keep each state and its statistics")
    options = parser.parse_args(argv)
    counts = ("runs", "again", "peak", "survivors", "pace", "waves")
    if min(getattr(options, name) for name in counts) < 1:
        parser.error(f"--{', --'.join(counts)} must be at least 1")
    if options.settle < 0:
        parser.error("--settle must not be negative")
    return options


def main(argv: list[str] | None = None) -> int:
    """0 if every goal is reached, 1 if one is missed or a run failed, 2 if nothing could run."""
    options = arguments(argv)
    faults = (ValueError, build.BuildError, LauncherError, RunError)
    return exit_status("sites", lambda: _run(options), faults)


def _run(options: argparse.Namespace) -> int:
    if not options.lib.is_file():
        raise ValueError(
            f"{options.lib} is not there; `make build` builds ours, --lib names another"
        )
    results = Results(machine(), rows.chosen(options.peers), options.conf)
    if not rows.can_learn():
        results.missing.append("this library cannot learn: only blind and peers are measured")
    steps = plan.steps(options, results)
    for line in results.missing:
        print(f"sites: {line}", flush=True)
    if results.cases:
        results.floor = _floor(steps[0], options)
    _measure(steps, results, options)
    return _show(results, options)


def _measure(steps: list[Step], results: Results, options: argparse.Namespace) -> None:
    """Round by round, so that a busy minute of the machine does not hit one case alone."""
    total = options.runs * len(steps) * _runs_of_turn(results, options)
    with progress.steps("sites", total) as shown:
        for turn in range(1, options.runs + 1):
            for step in steps:
                shown.now(f"round {turn} of {options.runs}: {step.case}")
                if not step.case.failed:
                    _one(step, turn, results, options, shown.advance)


def _runs_of_turn(results: Results, options: argparse.Namespace) -> int:
    """Of each case."""
    return len(results.rows) + (options.again - 1 if rows.SECOND in results.rows else 0)


def _floor(step: Step, options: argparse.Namespace) -> Figures:
    """What the program keeps without temporary objects. Raises RunError."""
    alone = ["--peak", str(-(-options.survivors >> 10)), "--survivors", str(options.survivors)]
    with tempfile.TemporaryDirectory(prefix="llamalloc-sites-") as folder:
        runner = rows.Runner(options.lib, "", options.settle, Path(folder))
        return runner.run(rows.BLIND, [step.command[0], *alone], {})


def _one(
    step: Step, turn: int, results: Results, options: argparse.Namespace, done: Callable[[], None]
) -> None:
    """One run of each row of a case, from an empty state."""
    with tempfile.TemporaryDirectory(prefix="llamalloc-sites-") as folder:
        runner = rows.Runner(options.lib, options.conf, options.settle, Path(folder), options.model)
        try:
            for row in results.rows:
                for _ in range(options.again if row == rows.SECOND else 1):
                    step.case.add(row, runner.run(row, step.command_of(row), step.environment))
                    done()
        except (RunError, OSError) as error:
            step.case.failed = str(error)
        if options.keep:
            kept = options.out / "states" / f"{step.case}, {turn}".replace(", ", "-")
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(folder, kept)


def _show(results: Results, options: argparse.Namespace) -> int:
    results.write(options.out / "results.json")
    console = Console(width=None if sys.stdout.isatty() else 200)
    if results.cases:
        console.print(table.ways(results))
    if results.guarded:
        console.print(table.guarded(results))
    if not results.is_charged():
        print(f"sites: {WITHOUT}")
    for fault in results.faults():
        print(f"sites: FAULT {fault}")
    for line in results.said():
        print(f"sites: a program said: {line}")
    print(f"sites: {options.out / 'results.json'} holds every run")
    return 0 if results.is_reached() else 1

# SPDX-License-Identifier: Apache-2.0
"""Learning must not cost where it cannot help: running programs blind, and learning.

Each load runs blind, then learning with an empty state (first), then in a fresh process with the
state that was kept (second), then blind again, round by round. So a machine that becomes slower or
faster meanwhile speaks neither for learning nor against it. The options are the default ones.
Memory is what the kernel charges to the program's control group, or its RSS if that is larger: on
average, and after the load has dropped; a program that ends by itself has no drop. Goals, for
medians: memory <= 1.03 times, time and CPU <= 1.05 times the blind runs'. Where the average grew,
what the program held on average may have grown as much: it is worse only if the average divided by
that grew, too.

The servers (server-...) were written to find loads that learning makes worse. They are measured
only where --only names them, or all of them: --only servers. A run takes 44 seconds. They stay
quiet for three seconds at their end, which is their drop, and say what they computed: a run that
learns and computes something else than the blind one is a fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from lab import progress
from lab.command import exit_status
from lab.launcher import LauncherError
from lab.learning import loads, table
from lab.learning.loads import Run
from lab.machine import machine
from lab.places import LIBRARY, ROOT
from lab.sites.build import BuildError, LackError
from lab.sites.process import RunError
from lab.sites.results import Case, Results
from lab.sites.rows import BLIND, LEARNED, Runner
from lab.workloads.recipe import WorkloadError

EXAMPLES = """examples:
  python -m lab.learning                            all loads, 3 times: 40 minutes
  python -m lab.learning --only servers --more-runs 1    the servers, with a third run that
                                                    learns: 3 hours
  python -m lab.learning --only ruby-cache,waves    two of them
  python -m lab.learning --only mariadb --conf segregate:always    what a closed gate saves it from
"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call measures all loads."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.learning", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = ",".join([*(load.name for load in loads.all_loads()), loads.ALL_SERVERS])
    parser.add_argument("--only", default="", help=f"of {names}; default: all but the servers")
    parser.add_argument("--runs", type=int, default=3, help="of each row (3)")
    parser.add_argument("--more-runs", type=int, default=0,
                        help="that learn, after the second: 0 to 4 (0)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of the programs' random choices (1)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of each load (1)")
    parser.add_argument("--conf", default="", help="options of the rows that learn: key:value,...")
    parser.add_argument("--settle", type=float, default=4.0,
                        help="seconds from the drop to the end of a cache (4)")  # fmt: skip
    parser.add_argument("--lib", type=Path, default=LIBRARY, help="our library (this build's)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "learning-costs",
                        help="folder to write")  # fmt: skip
    options = parser.parse_args(argv)
    if options.runs < 1 or options.scale <= 0 or options.settle < 0:
        parser.error("--runs must be at least 1, --scale above 0, --settle not negative")
    if not 0 <= options.more_runs <= len(LEARNED) - 2:
        parser.error(f"--more-runs must be 0 to {len(LEARNED) - 2}")
    return options


def main(argv: list[str] | None = None) -> int:
    """0 if every goal is reached, 1 if one is missed or a run failed, 2 if nothing could run."""
    options = arguments(argv)
    return exit_status("learning", lambda: _run(options), (ValueError, BuildError, LauncherError))


def _run(options: argparse.Namespace) -> int:
    if not options.lib.is_file():
        raise ValueError(
            f"{options.lib} is not there; `make build` builds ours, --lib names another"
        )
    rows = [BLIND, *LEARNED[: 2 + options.more_runs]]
    results = Results(machine(), rows, options.conf)
    runs = _made(options, results)
    for line in results.missing:
        print(f"learning: {line}", flush=True)
    _measure(runs, results, options)
    results.write(options.out / "results.json")
    Console(width=None if sys.stdout.isatty() else 230).print(table.costs(results))
    for fault in results.faults():
        print(f"learning: FAULT {fault}")
    print(f"learning: {options.out / 'results.json'} holds every run")
    return 0 if results.is_reached() else 1


def _made(options: argparse.Namespace, results: Results) -> list[Run]:
    """What can run here; a case for each is in `results` then."""
    runs = []
    for load in loads.chosen(options.only):
        try:
            runs.append(load.make(options.scale, options.seed))
        except LackError as error:
            results.missing.append(str(error))
            continue
        results.guarded.append(Case(load.name))
    return runs


def _measure(runs: list[Run], results: Results, options: argparse.Namespace) -> None:
    """Round by round, so that a busy minute of the machine does not hit one load alone."""
    total = options.runs * len(runs) * (len(results.rows) + 1)
    with progress.steps("learning", total) as shown:
        for turn in range(1, options.runs + 1):
            for case, run in zip(results.guarded, runs, strict=True):
                shown.now(f"round {turn} of {options.runs}: {case}")
                if not case.failed:
                    _one(case, run, results.rows, options, shown.advance)


def _one(
    case: Case, run: Run, rows: list[str], options: argparse.Namespace, done: Callable[[], None]
) -> None:
    """One run of each row, from an empty state, and the blind one once more."""
    with tempfile.TemporaryDirectory(prefix="llamalloc-learning-") as folder:
        runner = Runner(options.lib, options.conf, options.settle, Path(folder))
        try:
            said = None
            for row in [*rows, BLIND]:
                found = run(runner, row)
                case.add(row, found)
                said = found.result if said is None else said
                if found.result != said:
                    raise RunError(f"the {row} run said {found.result!r}, the blind run {said!r}")
                done()
        except (RunError, WorkloadError, OSError) as error:
            case.failed = str(error)

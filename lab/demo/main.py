# SPDX-License-Identifier: Apache-2.0
"""The demo's order of events: record, learn, run every allocator, show.

Says each step as it starts it. Whatever ends it, Ctrl-C included, the servers are stopped and the
machine's huge page setting is put back.
"""

from __future__ import annotations

import argparse
import platform
import resource
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console

from lab.command import tidy_end
from lab.demo import allocators, learn
from lab.demo.measure import measured, prepare_state
from lab.demo.plan import QUICK
from lab.demo.results import Results
from lab.demo.table import table
from lab.places import ROOT
from lab.redis_benchmark import PAPER, BenchmarkError, Workload
from llamalloc.running import hugepages
from llamalloc.running.launch import LaunchError
from llamalloc.running.server import ServerError

NEEDED_FILES = 20_000  # descriptors: two ends of 5,000 connections, with room


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The demo's own options; a plain call is the whole demo."""
    parser = argparse.ArgumentParser(prog="python -m lab.demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small load: seconds, no figures")
    names = ", ".join(row.name for row in allocators.ROWS)
    parser.add_argument("--only", default="", help=f"rows, by commas, of {names}; default: all")
    parser.add_argument("--peers", choices=("built", "all"), default="built",
                        help="of tcmalloc and mimalloc-3, which Debian does not package: those "
                        "that are built (default), or all, built first where they are not: some "
                        "minutes, and it needs cargo and a network")  # fmt: skip
    parser.add_argument("--runs", type=int, default=1, help="interleaved runs of each row")
    parser.add_argument("--soak", type=int, default=0, help="only so many runs with a model")
    parser.add_argument("--reuse", action="store_true", help="take the model of the last demo")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", help="folder to write")
    parser.add_argument("--json", type=Path, help="write results to this file, and no page")
    options = parser.parse_args(argv)
    if options.runs < 1 or options.soak < 0:
        parser.error("--runs must be at least 1, and --soak at least 0")
    return options


class Teller:
    """Says what is done, with the seconds since the demo began."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self._start:4.0f} s] {text}", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Runs the demo; 0 if every server was faultless, 1 otherwise, 2 if it could not run."""
    options = arguments(argv)
    try:
        with tidy_end():
            return _run(options, Teller())
    except KeyboardInterrupt:
        print("\ninterrupted; the huge page setting is as before", file=sys.stderr)
        return 130
    except (
        ServerError, BenchmarkError, LaunchError, learn.LearnError, OSError, ValueError
    ) as error:  # fmt: skip
        print(f"demo: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, say: Teller) -> int:
    rows = allocators.chosen(options.only.split(",") if options.only else [])
    rows = [allocators.SOAKED] * options.soak or rows
    rows = allocators.present(rows, options.peers == "all", say)
    if not rows:
        raise ValueError("no row is left to run")
    workload = QUICK if options.quick else PAPER
    _prepare(options.out, rows)
    with hugepages.borrowed("always") as setting:
        if setting != "always":
            say(f"huge pages stay at {setting!r}: only root may set them to always for the demo")
        results = Results(hugepages=setting, machine=_machine(), workload=workload)
        if any(row.learned for row in rows):
            learn.learn(results, workload, options.out, options.reuse, say)
        for turn in range(1, options.runs + 1):
            for row in rows:
                _one(results, row, workload, options.out, turn, say)
    return _show(results, options, say)


def _one(
    results: Results,
    row: allocators.Row,
    workload: Workload,
    out: Path,
    turn: int,
    say: Teller,
) -> None:
    say(f"redis-server on {row.title}, run {turn}")
    prepare_state(row, out)
    run = measured(row, workload, out, lambda s: say(f"    {s}"))
    results.runs.append(run)
    charge = f"charge {run.charge >> 20} MiB, " if run.charge is not None else ""
    memory = f"{charge}RSS {run.rss >> 20} MiB, live {run.used_memory >> 20} MiB"
    say(f"    after the drop: {memory}")
    if row.learns and run.statistics:
        say(f"    {run.statistics['segregation']}")
    for fault in run.faults:
        say(f"    FAULT {fault}")
    if run.faults:
        _keep_logs(out / "logs", row.name, len(results.runs))


def _keep_logs(folder: Path, name: str, number: int) -> None:
    """Sets the logs of a faulty run aside, before the next run writes its own."""
    for end in ("log", "stderr"):
        (folder / f"{name}.{end}").rename(folder / f"{name}-fault-{number}.{end}")


def _prepare(out: Path, rows: list[allocators.Row]) -> None:
    """Folders, descriptors, programs. Raises ServerError with the cure where something lacks."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    if not any(row.learns == 1 for row in rows):
        for row in rows:
            prepare_state(row, out)
    missing = [p for p in ("redis-server", "redis-benchmark", "stdbuf") if not shutil.which(p)]
    missing += [row.preload for row in rows if not row.available()]
    if missing:
        packages = " ".join(allocators.PACKAGES)
        raise ServerError(f"missing {', '.join(missing)}: apt-get install {packages}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < NEEDED_FILES:
        _raise_files(hard)


def _raise_files(hard: int) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (NEEDED_FILES, max(hard, NEEDED_FILES)))
    except (ValueError, OSError):
        raise ServerError(
            f"the demo needs {NEEDED_FILES} open files, the limit is {hard}: run it as root, or "
            f"raise `ulimit -Hn`"
        ) from None


def _machine() -> str:
    text = Path("/proc/cpuinfo").read_text()
    model = next((x.partition(":")[2].strip() for x in text.splitlines() if "model name" in x), "?")
    cores = len([x for x in text.splitlines() if x.startswith("processor")])
    return f"{cores} cores of {model}, Linux {platform.release()}"


def _show(results: Results, options: argparse.Namespace, say: Teller) -> int:
    Console().print(table(results))
    faults = [fault for run in results.runs for fault in run.faults]
    say(f"{len(results.runs)} measured runs, {len(faults)} faults")
    if options.json or options.soak:
        results.write(options.json or options.out / "soak.json")
        return 1 if faults else 0
    from lab.demo import page  # matplotlib: only where something is drawn

    results.write(options.out / "results.json")
    page.write(results, options.out)
    print(page.sampling_text(results))
    say(f"report: {options.out / 'report.html'}")
    return 1 if faults else 0

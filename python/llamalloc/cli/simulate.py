# SPDX-License-Identifier: Apache-2.0
"""`llamalloc simulate`: the memory that placement policies would use on a trace."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from llamalloc.formats import regular_file

if TYPE_CHECKING:
    from llamalloc.running.simulation import Result, Setting

_EVERY = 10.0  # seconds


def simulate(
    trace: Annotated[
        str, typer.Argument(metavar="T.trace", help="A trace, or synthetic:waves[:EVENTS].")
    ],
    policy: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Placement policies; `all` means every policy."),
    ] = "llamalloc",
    predictor: Annotated[
        str, typer.Option(metavar="NAME,...", help="Lifetime predictors.")
    ] = "oracle",
    learn: Annotated[
        str | None,
        typer.Option(metavar="T.trace", help="`site` and `exact` learn from this trace instead."),
    ] = None,
    error: Annotated[
        float, typer.Option(min=0, max=1, help="Share that gets a wrong, random lifetime class.")
    ] = 0.0,
    error_of: Annotated[
        Literal["contexts", "objects"],
        typer.Option(help="What --error counts: contexts or objects."),
    ] = "contexts",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the wrong classes.")] = 1,
    samples: Annotated[
        int,
        typer.Option(min=1, max=100000, help="Number of points in time to measure, evenly spaced."),
    ] = 500,
    keep: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="`online`, `state`: write what was learned to FILE."),
    ] = None,
    conf: Annotated[
        str | None,
        typer.Option(
            metavar="KEY:VALUE,...", help="Options of llamalloc, such as segregate:always."
        ),
    ] = None,
    pictures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write charts (PNG) to this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    check_against_replay: Annotated[
        bool,
        typer.Option(
            "--check-against-replay",
            help="Replay the trace on the real library too; both must agree within 2 %. Takes no "
            "other option.",
        ),
    ] = False,
) -> int:
    """Simulate how much memory a trace would use under several placement policies and predictors.

    Policies say where objects go. `llamalloc` is our own heap, `paper-k2` and `paper-k4` are the
    heap of the paper with two deadlines. `slabs-fullest`, `slabs-lowest` (as in tcmalloc),
    `first-fit` and `best-fit` ignore lifetimes.

    Predictors say how long objects live. `oracle` knows it. `exact` and `site` are lookup tables of
    the same trace, by calling context and by call site; `site:0.95` lets 5 % of the objects live
    longer than predicted (otherwise 1 in 10,000). `model:FILE` is a trained model.
    `constant:le_3s` predicts always the same class. `none` predicts nothing.

    With `online` and `state:FILE` the simulated process learns while the trace runs, as with the
    option `learn` (docs/learning.md). `online:64KiB` samples an object in 64 KiB. `state:FILE`
    begins with what an earlier run left: a state file of a process, or of `--keep`. Only the policy
    llamalloc runs with them, as only it takes options of `--conf`.

    With every predictor the gate decides whether llamalloc places objects by it, as in a process.
    What a predictor could save shows with `--conf segregate:always`.

    The table shows what the kernel holds for the heap divided by live bytes: the average over time
    (beside it as if all pages were of 4 KiB), the average after drops of the load, the worst drop,
    and the peak. Of a broken huge page only what was not given back counts. *huge* is the
    share on huge pages, *pages* the number of huge pages taken from the system (a page taken twice
    counts twice), *outlived* the share of objects that lived longer than predicted. The second
    table shows where the rest is, before broken pages gave back.
    python/llamalloc/running/simulation.py describes the JSON. The exit code is 1 if a run failed or
    the replay did not agree.

    Examples:

        llamalloc simulate t.trace --predictor oracle,site:0.9999,none --conf segregate:always

        llamalloc simulate t.trace --predictor model:redis.model --pictures out/

        llamalloc simulate tuesday.trace --predictor exact --learn monday.trace

        llamalloc simulate t.trace --predictor online --keep t.learned

        llamalloc simulate t.trace --predictor none,state:t.learned

        llamalloc simulate t.trace --check-against-replay
    """
    from dataclasses import replace

    from llamalloc.running import simulation

    setting = simulation.Setting(trace, learn, error, error_of == "objects", seed, samples)
    setting = replace(setting, keep=keep, conf=conf)
    try:
        if check_against_replay:
            other = setting != simulation.Setting(trace) or pictures is not None or as_json
            if other or (policy, predictor) != ("llamalloc", "oracle"):
                told = "simulates without a model, and takes no other option"
                raise typer.BadParameter(told, param_hint="--check-against-replay")
            return _check(setting)
        if pictures is not None:
            _check_pictures(pictures)
        predictors = [name.strip() for name in predictor.split(",") if name.strip()]
        if not predictors:
            raise typer.BadParameter("is empty; try oracle", param_hint="--predictor")
        runs = simulation.plan(simulation.parse_policies(policy), predictors)
        simulation.check(setting, runs)
        results = _run(setting, runs)
    except simulation.SimulationError as failure:
        print(f"llamalloc: {failure}", file=sys.stderr)
        return 1
    _print(results, as_json)
    if pictures is not None:
        _write_pictures(results, pictures)
    return 0


def _print(results: list[Result], as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps(results))
        return
    from rich.console import Console

    from llamalloc.reporting import simulation_table

    console = Console(highlight=False)
    simulation_table.print_runs(results, console)


def _run(setting: Setting, runs: list[tuple[str, str]]) -> list[Result]:
    """With a bar on stderr that is gone when done; where stderr is no terminal, a line a run, and
    one now and then."""
    from rich.console import Console
    from rich.progress import Progress

    from llamalloc.running import simulation

    console = Console(stderr=True)
    if not console.is_terminal:
        return simulation.run_all(setting, runs, _say, _Now(len(runs)))
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("simulating", total=len(runs))
        return simulation.run_all(
            setting, runs, heard=lambda done: bar.update(task, completed=done)
        )


class _Now:
    """Says what is done of `total` runs, every ten seconds."""

    def __init__(self, total: int) -> None:
        self.total, self.next = total, time.monotonic() + _EVERY

    def __call__(self, done: float) -> None:
        if (now := time.monotonic()) < self.next:
            return
        self.next = now + _EVERY
        print(f"llamalloc: simulating, {done / self.total:.0%}", file=sys.stderr, flush=True)


def _say(done: int, total: int, what: str) -> None:
    print(f"llamalloc: simulated {what} ({done} of {total})", file=sys.stderr, flush=True)


def _check_pictures(folder: Path) -> None:
    """Raises BadParameter where the pictures could not be written after all runs."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        told = f"{folder}: {there} is not a writable folder"
        raise typer.BadParameter(told, param_hint="--pictures")


def _write_pictures(results: list[Result], folder: Path) -> None:
    from llamalloc.reporting import simulation_pictures

    sys.stdout.flush()
    folder.mkdir(parents=True, exist_ok=True)
    for name, png in simulation_pictures.all_pictures(results).items():
        regular_file.write(folder / name, png)
    print(f"llamalloc: wrote pictures to {folder}", file=sys.stderr)


def _check(setting: Setting) -> int:
    from rich.console import Console

    from llamalloc.reporting import simulation_table
    from llamalloc.running import simulation

    print("llamalloc: replaying, for as long as the trace lasts", file=sys.stderr, flush=True)
    agreement = simulation.compare_with_replay(setting)
    agreed = simulation_table.print_agreement(agreement, Console(highlight=False))
    return 0 if agreed else 1

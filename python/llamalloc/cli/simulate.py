# SPDX-License-Identifier: Apache-2.0
"""`llamalloc simulate`: the memory that placement policies would use on a trace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from llamalloc.running.simulation import Result, Setting


def simulate(
    trace: Annotated[
        str, typer.Argument(metavar="T.trace", help="A trace, or synthetic:waves[:EVENTS].")
    ],
    policy: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="How objects are placed; `all` means every policy."),
    ] = "llamalloc",
    predictor: Annotated[
        str, typer.Option(metavar="NAME,...", help="How lifetimes are predicted.")
    ] = "oracle",
    learn: Annotated[
        str | None,
        typer.Option(metavar="T.trace", help="Learn `site` and `exact` from this trace."),
    ] = None,
    error: Annotated[
        float, typer.Option(min=0, max=1, help="Share that gets a wrong, random class.")
    ] = 0.0,
    error_of: Annotated[
        Literal["contexts", "objects"], typer.Option(help="What --error is a share of.")
    ] = "contexts",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the wrong classes.")] = 1,
    samples: Annotated[
        int, typer.Option(min=1, max=100000, help="Number of evenly spaced samples.")
    ] = 500,
    pictures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write PNG pictures to this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    check_against_replay: Annotated[
        bool,
        typer.Option(
            "--check-against-replay",
            help="Compare with a replay on the library; they must agree within 2 %.",
        ),
    ] = False,
) -> int:
    """Replay a trace on placement policies with predictors; show how much memory each would use.

    Policies: `llamalloc` is the product's own heap; `paper-k2` and `paper-k4` are the heap of the
    paper; `slabs-fullest`, `slabs-lowest` (as tcmalloc), `first-fit` and `best-fit` do not use
    lifetimes. Predictors: `oracle`, `site[:0.9999]`, `exact[:0.9999]`, `model:FILE`,
    `constant:le_1s`, `none`.

    The table shows footprint divided by live bytes: averaged over time (in 2 MiB pages, then in
    4 KiB pages), after drops of the load, and at the peak. A huge page that is acquired twice
    counts twice. The head of python/llamalloc/running/simulation.py documents the JSON. The exit
    code is 1 if a run failed or --check-against-replay found a difference.

    Examples:

        llamalloc simulate t.trace --policy all --predictor oracle,site:0.9999,none

        llamalloc simulate t.trace --predictor model:redis.model --pictures out/

        llamalloc simulate tuesday.trace --predictor exact --learn monday.trace

        llamalloc simulate t.trace --check-against-replay
    """
    from llamalloc.running import simulation

    setting = simulation.Setting(trace, learn, error, error_of == "objects", seed, samples)
    try:
        if check_against_replay:
            return _check(setting)
        predictors = [name.strip() for name in predictor.split(",") if name.strip()]
        if not predictors:
            raise typer.BadParameter("is empty; try oracle", param_hint="--predictor")
        runs = simulation.plan(simulation.parse_policies(policy), predictors)
        results = _run(setting, runs)
    except simulation.SimulationError as failure:
        print(f"llamalloc: {failure}", file=sys.stderr)
        return 1
    if pictures is not None:
        _write_pictures(results, pictures)
    _print(results, as_json)
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
    """With a bar on stderr that is gone when done; where stderr is no terminal, a line a run."""
    from rich.console import Console
    from rich.progress import Progress

    from llamalloc.running import simulation

    console = Console(stderr=True)
    if not console.is_terminal:
        return simulation.run_all(setting, runs, _say)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("simulating", total=len(runs))
        return simulation.run_all(
            setting, runs, lambda done, total, what: bar.update(task, completed=done)
        )


def _say(done: int, total: int, what: str) -> None:
    print(f"llamalloc: simulated {what} ({done} of {total})", file=sys.stderr, flush=True)


def _write_pictures(results: list[Result], folder: Path) -> None:
    from llamalloc.reporting import simulation_pictures

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, png in simulation_pictures.all_pictures(results).items():
            (folder / name).write_bytes(png)
    except OSError as error:
        hint = "--pictures"
        raise typer.BadParameter(f"{folder}: {error.strerror}", param_hint=hint) from error
    print(f"llamalloc: wrote pictures to {folder}", file=sys.stderr)


def _check(setting: Setting) -> int:
    from rich.console import Console

    from llamalloc.reporting import simulation_table
    from llamalloc.running import simulation

    print("llamalloc: replaying, for as long as the trace lasts", file=sys.stderr, flush=True)
    agreement = simulation.compare_with_replay(setting)
    agreed = simulation_table.print_agreement(agreement, Console(highlight=False))
    return 0 if agreed else 1

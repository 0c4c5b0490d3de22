# SPDX-License-Identifier: Apache-2.0
"""`llamalloc train`: trains a model from profiles and reports its accuracy."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer


def train(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Profiles that `llamalloc record` wrote, and state files that `learn` keeps.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="M.model", help="Model file to write.")
    ],
    holdout: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="P.pb.gz",
            help="Measure on this profile and never learn from it; may be repeated.",
        ),
    ] = None,
    rule: Annotated[
        Literal["tail", "p95"],
        typer.Option(
            help="Label a context with the shortest class that at most this share of its objects "
            "outlive: 1 in 10,000 (tail) or 1 in 20 (p95)."
        ),
    ] = "tail",
    seed: Annotated[
        int,
        typer.Option(min=0, help="Random seed. The same seed and profiles give the same model."),
    ] = 0,
    steps: Annotated[
        int,
        typer.Option(
            min=1, help="Maximum number of training batches; stops earlier if accurate enough."
        ),
    ] = 1000,
    report: Annotated[
        Path | None, typer.Option(metavar="R.html", help="Also write an HTML page with charts.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON instead of a table.")
    ] = False,
) -> int:
    """Learn how long objects live. Write a model, and say whether to use it.

    A context is the stack of callers of an allocation, and its size. The model predicts a lifetime
    class for each context. It learns from profiles and from state files; the network, from profiles
    only. Accuracy is measured on data that the model has not learned yet: on the --holdout profiles
    if there are any, else on the last profile, else on a fifth of the contexts.

    The first table compares the network with two lookup tables: *exact* by context, *site* by call
    site. It shows the share of correct predictions: *weighted* over allocations, *contexts* over
    contexts. *within one* also accepts a class next to the right one. *page group* only asks for
    the right group of huge pages, which is what the heap uses. *known* is the share of allocations
    that a lookup table has an entry for; for others it gives the most common class. The network
    always answers.

    The second table shows what the library would use, in this order: the *exact* table by build and
    offset, the *name* table, then the *site prior* or the *network*. The verdict follows from it.
    To say `use the model`, it needs a profile or a state file of a second run. The last line says
    whether the runs prove that placement pays: then a process places by the model from its first
    allocation on, else once it has measured that itself. Training takes some seconds.

    Examples:

        llamalloc train -o redis.model p.pb.gz

        llamalloc train -o redis.model monday.pb.gz tuesday.pb.gz --holdout friday.pb.gz

        llamalloc train -o server.model p.pb.gz /var/lib/llamalloc/server.learned

        llamalloc train -o redis.model p.pb.gz --report accuracy.html

        llamalloc train -o redis.model p.pb.gz q.pb.gz --json | jq .verdict

    Then: llamalloc run --model redis.model -- ./server
    """
    from llamalloc.formats import file_kinds, learned_state, model_file, profile
    from llamalloc.learning import train as training
    from llamalloc.reporting import train_report

    try:
        if report is not None:
            file_kinds.check_output(report, None, [*inputs, *(holdout or []), output])
            model_file.check_writable(report)  # before the work, not after it
        with _progress() as progress:
            result = training.train(
                inputs,
                output,
                rule=rule,
                seed=seed,
                holdout=holdout or [],
                steps=steps,
                progress=progress,
            )
        if report is not None:
            train_report.write_html(result, report)
    except (profile.ProfileError, learned_state.StateError, model_file.ModelError) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename or output}: cannot be written ({error.strerror})")
    print(json.dumps(result.to_json(), indent=1) if as_json else train_report.text(result))
    return 0


def _failed(message: str) -> int:
    print(f"llamalloc: {message}", file=sys.stderr)
    return 1


@contextmanager
def _progress():
    """A bar on stderr that is gone when done; where stderr is no terminal, a line a phase."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Phases()
        return
    text = TextColumn("{task.description}")
    bar = Progress(text, BarColumn(), TimeElapsedColumn(), console=console, transient=True)
    with bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(
            task, description=what, completed=done, total=total
        )


class _Phases:
    """Says each phase once."""

    def __init__(self):
        self.phase = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        phase = what.partition(":")[0]
        if phase != self.phase:
            print(f"llamalloc: {phase}", file=sys.stderr, flush=True)
        self.phase = phase

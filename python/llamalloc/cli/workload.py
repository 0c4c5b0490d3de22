# SPDX-License-Identifier: Apache-2.0
"""`llamalloc workload`: lists and runs recipes of real programs (workloads/README.md)."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Real programs under a load that repeats: to record, trace and compare allocators.",
    no_args_is_help=True,
)


@app.command("list")
def list_workloads() -> int:
    """List the workloads, how long each takes, and what is missing here."""
    from rich.console import Console
    from rich.table import Table

    from llamalloc.workloads.programs import ALL

    table = Table(box=None, pad_edge=False)
    for head in ("name", "seconds", "ready", "what runs, and what it does to memory"):
        table.add_column(head, justify="right" if head == "seconds" else "left")
    for recipe in ALL:
        about = f"{recipe.title}\n[dim]{recipe.memory}[/dim]"
        table.add_row(recipe.name, str(recipe.seconds), "no" if recipe.missing() else "yes", about)
    console = Console()
    console.print(table)
    console.print("\nPackages that are missing: scripts/setup.sh packages workloads", style="dim")
    return 0


@app.command("run")
def run_workload(
    name: Annotated[str, typer.Argument(help="Of `llamalloc workload list`.")],
    under: Annotated[
        str, typer.Option(metavar="COMMAND", help="Words before the program, in quotes.")
    ] = "",
    preload: Annotated[
        str,
        typer.Option(metavar="LIB", help="glibc, jemalloc, tcmalloc, mimalloc, or a library."),
    ] = "",
    scale: Annotated[float, typer.Option(min=0.001, help="Size of the load.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the load's random choices.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write figures and memory over time here.")
    ] = None,
) -> int:
    """Run one program under its load, plainly or on an allocator or under a recorder.

    `llamalloc` as the first word of --under is this very version.

    Examples:

        llamalloc workload run rocksdb

        llamalloc workload run images --preload jemalloc

        llamalloc workload run redis --under "llamalloc record -o redis.pb.gz"

        llamalloc workload run mariadb --scale 0.1 --under "llamalloc trace -o mariadb.trace"

        llamalloc workload run clang --under "llamalloc run --model clang.model"
    """
    from llamalloc.workloads import programs, recipe, runner

    start = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - start:4.0f} s] {name}: {text}", file=sys.stderr, flush=True)

    options = runner.Options(under=under, preload=preload, scale=scale, seed=seed)
    try:
        outcome = runner.run(programs.find(name), options, say)
    except recipe.WorkloadError as error:
        print(f"llamalloc: {error}", file=sys.stderr)
        return 2
    if json_file:
        json_file.write_text(json.dumps(asdict(outcome)) + "\n")
    print(
        f"{name}: {outcome.seconds:.1f} s, {outcome.cpu:.1f} s of processor, "
        f"peak {outcome.peak_rss >> 20} MiB, at the end {outcome.rss >> 20} MiB"
    )
    return 0

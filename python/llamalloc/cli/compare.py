# SPDX-License-Identifier: Apache-2.0
"""`llamalloc compare`: a server under its load, on several allocators."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from llamalloc.formats import file_kinds, regular_file
from llamalloc.running import launch


def compare(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- SERVER [ARGS]", show_default=False)
    ] = None,
    load: Annotated[
        str,
        typer.Option("--load", metavar="CMD", help="Shell command that puts load on the server."),
    ] = "",
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each allocator runs; all take turns.")
    ] = 3,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.html", help="Page to write.")
    ] = Path("compare.html"),
    only: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Only these, beside the server as shipped: glibc, jemalloc, mimalloc, gperftools "
            "(those that are installed), llamalloc, learns-1, learns-2.",
        ),
    ] = "",
    ready: Annotated[
        str,
        typer.Option(
            metavar="CMD",
            help="Shell command that succeeds when the server is ready. Default: as soon as the "
            "server listens on a socket.",
        ),
    ] = "",
    before: Annotated[
        str,
        typer.Option(
            metavar="CMD",
            help="Shell command before each run, to remove old data. It has no terminal to ask on.",
        ),
    ] = "",
    settle: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long to wait between the end of the load and the measurement.",
        ),
    ] = 5.0,
    throughput: Annotated[
        str,
        typer.Option(
            metavar="REGEX",
            help="How to find the throughput in the output of the load; the first group is the "
            "number.",
        ),
    ] = "",
    latency: Annotated[
        str, typer.Option(metavar="REGEX", help="The same for the p99 latency, in milliseconds.")
    ] = "",
    conf: Annotated[
        str, typer.Option(metavar="KEY:VALUE,...", help="Options of llamalloc (docs/options.md).")
    ] = "",
) -> int:
    """Measure a server's memory and speed with llamalloc and with other allocators.

    A round runs the server as shipped, with each other allocator that is installed, with llamalloc,
    and twice with llamalloc while it learns: the second run starts with what the first has learned.
    Each run starts the server, waits until it is ready, runs the load command, waits --settle
    seconds and measures memory. Then it ends the server with SIGTERM.

    The table shows ratios to the server as shipped. As root, it also shows the charge: what a
    memory limit counts. The server then runs in a memory control group of its own.

    Throughput and p99 latency are read from the output of redis-benchmark, wrk, hey, ab, sysbench,
    pgbench and memtier_benchmark, or by --throughput and --latency.

    The server must stay in the foreground and must not load what an earlier run has stored. The
    exit code is 0, or 1 if a run failed; the rounds before it are shown.

    Examples:

        llamalloc compare --load "redis-benchmark -p 7000 -q" -- redis-server --port 7000 --save ""

        llamalloc compare --rounds 5 --load "wrk -d 20 --latency http://127.0.0.1:8080/" -- ./server
    """
    if not command:
        raise launch.LaunchError(
            "no server given; put it last: llamalloc compare --load CMD -- ./server"
        )
    if not load:
        raise launch.LaunchError('--load CMD is missing, as in --load "wrk http://127.0.0.1:8080/"')
    from llamalloc.running import compare as comparing
    from llamalloc.running import load_figures

    program = launch.checked(command[0])
    _check_output(output)
    names = [name.strip() for name in only.split(",") if name.strip()]
    plan = comparing.Plan([str(program.absolute()), *command[1:]], load, ready, before, settle,
                          throughput=throughput, latency=latency, conf=conf)  # fmt: skip
    try:
        for pattern in filter(None, (throughput, latency)):
            load_figures.compiled(pattern)
        launch.parse_conf(conf)
        chosen = comparing.variants(program, names)
    except (comparing.CompareError, load_figures.FiguresError) as error:
        raise launch.LaunchError(str(error)) from None
    try:
        rows = comparing.run(plan, chosen, rounds, _say)
    except (comparing.CompareError, OSError) as error:
        _say(str(error))
        return 1
    complete = len(rows[0].runs) == rounds
    return 0 if _show(rows, plan, output) and complete else 1


def _check_output(output: Path) -> None:
    """Raises LaunchError or OutputError before anything runs, not after all rounds."""
    file_kinds.check_output(output)
    if not _can_be_written(output):
        raise launch.LaunchError(
            f"{output}: cannot be written; name a file in a folder that exists"
        )


def _can_be_written(output: Path) -> bool:
    if output.exists():
        return not output.is_dir() and os.access(output, os.W_OK)
    try:
        output.touch()
        output.unlink()
    except OSError:
        return False
    return True


def _show(rows, plan, output: Path) -> bool:
    """Whether the page could be written, too."""
    from rich.console import Console

    from llamalloc.reporting import compare_page

    console = Console()
    console.print(compare_page.terminal_table(rows))
    console.print(f"\n{compare_page.HOW}", style="dim")
    if all(m.charge is None for r in rows for m in r.runs):
        console.print(compare_page.WITHOUT_GROUP)
    if all(m.per_second is None for r in rows for m in r.runs):
        console.print("The load printed no throughput that is known here; see --throughput.")
    try:
        regular_file.write(output, compare_page.page(rows, plan).encode())
    except OSError as error:
        _say(f"{output}: {error.strerror or error}")
        return False
    _say(f"wrote {output}")
    return True


def _say(text: str) -> None:
    print(f"llamalloc: {text}", file=sys.stderr)

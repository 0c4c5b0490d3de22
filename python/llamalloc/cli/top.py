# SPDX-License-Identifier: Apache-2.0
"""`llamalloc top` and `llamalloc ps`: what processes under llamalloc do now."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Annotated, Any

import typer

from llamalloc.running import launch


def top(
    target: Annotated[
        str, typer.Argument(metavar="PID|ADDRESS", help="A process, or where it serves HTTP.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Print one look and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a look, one a line.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, help="Seconds between two looks.")
    ] = 2.0,
) -> int:
    """Watch a process under llamalloc: memory, huge pages, rates, page groups, call sites.

    By PID this works for every process under llamalloc, whatever its options are: its counters are
    read from outside, as a debugger would, and the process is not disturbed. You must be the same
    user or root. With the option `http` of the library, call sites are shown, too. Ctrl-C ends it.
    When the process ends, so does the command, with exit code 1.

    Examples:

        llamalloc top 4711

        llamalloc top 127.0.0.1:9109 --once

        sudo llamalloc top 4711 --json --interval 10
    """
    from llamalloc.running import live

    try:
        before = live.look(target)
    except live.LiveError as error:
        raise launch.LaunchError(str(error)) from None
    try:
        _watch(target, before, interval, once, as_json)
    except live.LiveError as error:
        ended = target.isdecimal() and not (live.PROC / target).exists()
        typer.echo(f"llamalloc: {f'{target}: has ended' if ended else error}", err=True)
        return 1
    return 0


def ps() -> int:
    """List the processes that run under llamalloc: PID, live and resident memory, command.

    Processes of other users are listed for root only. The exit code is 1 if there is none.
    """
    from llamalloc.reporting.live_view import process_rows
    from llamalloc.running import published

    found = list(published.processes())
    readable = [p for p in found if isinstance(p, published.Published)]
    for line in process_rows(readable):
        print(line)
    for problem in found:
        if isinstance(problem, published.PublishedError):
            typer.echo(f"llamalloc: {problem}", err=True)
    if not found:
        typer.echo("llamalloc: no process runs under llamalloc here (as this user)", err=True)
    return 0 if found else 1


def _watch(target: str, before: Any, interval: float, once: bool, as_json: bool) -> None:
    from rich.console import Console

    from llamalloc.reporting import live_view
    from llamalloc.running import live

    console = Console()
    wait = 1.0 if once else interval
    while True:
        time.sleep(wait)
        try:
            after = live.look(target)
        except live.BusyError:
            if once:
                raise
            continue
        if as_json:
            print(json.dumps(_document(before, after)), flush=True)
        else:
            if not once and console.is_terminal:
                console.clear()
            console.print(live_view.page(before, after))
        if once:
            return
        before = after


def _document(before: Any, after: Any) -> dict[str, Any]:
    from llamalloc.running import live

    fields = dataclasses.asdict(after)
    del fields["seconds"]
    return fields | {
        "coverage": after.coverage,
        "rates": live.rates(before, after),
        "growth": {site: change for site, _, change in live.growth(before, after)},
    }

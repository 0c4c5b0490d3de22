# SPDX-License-Identifier: Apache-2.0
"""`llamalloc doctor`: checks whether the allocator can work on this machine and in a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from llamalloc.running.doctor import Finding

_MARKS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "problem": "[bold red]problem[/]"}


def doctor(
    program: Annotated[
        str | None, typer.Argument(metavar="[PROGRAM]", help="Also check this program.")
    ] = None,
    pid: Annotated[
        int | None, typer.Option(min=1, metavar="PID", help="Check this running process instead.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> int:
    """Check whether llamalloc works on this machine and with a program, and how to fix problems.

    With --pid it examines a running process: whether it runs under llamalloc, its options, huge
    pages, memory, limits, sampling and addresses, and what learning decided. If LD_PRELOAD names
    llamalloc but the process runs without it, `doctor` tells the cause.

    The exit code is 1 if it found a problem, otherwise 0.

    Examples:

        llamalloc doctor

        llamalloc doctor redis-server

        llamalloc doctor --json ./server

        llamalloc doctor --pid 4711
    """
    from llamalloc.running.doctor import PROBLEM, examine

    findings = examine(program) if pid is None else _of_process(pid, program)
    if json:
        _print_json(findings)
    else:
        _print_page(findings, pid is not None)
    return 1 if any(finding.level == PROBLEM for finding in findings) else 0


def _of_process(pid: int, program: str | None) -> list[Finding]:
    from llamalloc.running import doctor_process, launch
    from llamalloc.running.published import PublishedError

    if program is not None:
        raise launch.LaunchError("give a program or --pid, not both")
    try:
        return doctor_process.examine(pid)
    except PublishedError as error:
        raise launch.LaunchError(str(error)) from None


def _print_json(findings: list[Finding]) -> None:
    import json
    from dataclasses import asdict

    print(json.dumps([asdict(finding) for finding in findings], indent=1))


def _print_page(findings: list[Finding], running: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    view = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    view.add_column(no_wrap=True)
    view.add_column(no_wrap=True)
    view.add_column(overflow="fold")
    for finding in findings:
        facts = escape(finding.found) + (
            f" [dim]- {escape(finding.meaning)}[/]" if finding.meaning else ""
        )
        cure = f"\n-> {escape(finding.cure)}" if finding.cure else ""
        view.add_row(_MARKS[finding.level], escape(finding.subject), facts + cure)
    console = Console(highlight=False)
    console.print(view)
    console.print(_verdict(findings, running))


def _verdict(findings: list[Finding], running: bool) -> str:
    problems = sum(finding.level == "problem" for finding in findings)
    if problems:
        return f"\n{problems} problem{'s' if problems > 1 else ''}: see the arrows above."
    return "\nllamalloc works there." if running else "\nllamalloc will work here."

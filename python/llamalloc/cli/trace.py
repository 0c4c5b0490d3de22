# SPDX-License-Identifier: Apache-2.0
"""`llamalloc trace`: records every allocation of a program; describes, cuts and exports traces."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from llamalloc.formats import file_kinds, path_pattern, regular_file
from llamalloc.running import launch

_NO_PROGRAM = "no program given; put it last, after --:  llamalloc trace -o t.trace -- ./server"
_LARGE = 100_000_000  # bytes, packed in some seconds
_HELP = """Record every allocation, resize and free of a program.

    Without a subcommand it records: `llamalloc trace -o t.trace -- ./server`. The file format is
    described in contracts/trace_format.md.

    Examples:

        llamalloc trace -o t.trace -- ./server args

        llamalloc trace info t.trace
"""


class _RecordByDefault(TyperGroup):
    """`trace -o FILE -- PROGRAM` is `trace record -o FILE -- PROGRAM`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in {"-h", "--help"}:
            args = ["record", *args]
        return super().parse_args(ctx, args)


trace = typer.Typer(cls=_RecordByDefault, help=_HELP, no_args_is_help=True)

TraceFile = Annotated[Path, typer.Argument(metavar="T.trace", help="A trace.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]


@trace.command(context_settings={"allow_interspersed_args": False})
def record(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGS]", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="T.trace", help="Trace to write.")
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Do not compress the file. It gets larger and is ready at once."
        ),
    ] = False,
    conf: Annotated[
        str, typer.Option(metavar="KEY:VALUE,...", help="Options of the library.")
    ] = "",
) -> int:
    """Run a program and record every object that it allocates, resizes and frees.

    The exit code is that of the program, or 128 + n if signal n ended it, or 1 if the program
    succeeded but nothing was recorded. If the program is killed, only its last events are lost.
    Programs that it starts are recorded too, each in its own file T.trace.PID. If one replaces
    itself by another program (exec), the other's trace replaces its own: the process and with it
    the file stay the same, also with %p. Traces of an earlier run, T.trace and T.trace.NUMBER, are
    removed.

    Examples:

        llamalloc trace -o t.trace -- redis-server --port 7000

        llamalloc trace -o t.trace -- clang++ -c big.cc
    """
    if output is None:
        raise launch.LaunchError("-o FILE is missing; put options first and the program after --")
    if not command:
        raise launch.LaunchError(_NO_PROGRAM)
    from llamalloc.running import child, traces

    file_kinds.check_output(output, file_kinds.TRACE)
    pattern = str(_writable(output.absolute()))
    traces.find_tool()
    program = launch.checked(command[0])
    options = launch.parse_conf(conf)
    traces.environment(Path(pattern), 0, options)  # its errors belong before the fork
    name, now = launch.file_name(program), int(time.time())

    def own(pid: int) -> Path:
        return Path(path_pattern.filled(pattern, pid, name, now))

    file_kinds.check_output(own(0), file_kinds.TRACE)

    def environment(pid: int) -> dict[str, str]:
        for old in (own(pid), *traces.of_children(own(pid))):
            old.unlink(missing_ok=True)
        return traces.environment(own(pid), pid, options)

    pids: list[int] = []
    status = child.run(program, command, environment, started=pids.append)
    path = own(pids[0])
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        _say(f"{command[0]} was ended by signal {-code}")
    recorded = _finish(path, not raw)
    return 128 - code if code < 0 else code or (0 if recorded else 1)


@trace.command()
def info(
    file: TraceFile,
    top: Annotated[
        int, typer.Option(min=0, help="Number of stacks to list, most allocated bytes first.")
    ] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a page.")] = False,
) -> int:
    """Describe a trace: events, threads, sizes, lifetimes, peak live bytes, largest stacks.

    Examples:

        llamalloc trace info t.trace

        llamalloc trace info --json --top 100 t.trace | jq .peak_bytes
    """
    from llamalloc.running import traces

    def work() -> None:
        found = traces.info(file, top)
        if json:
            import json as writer

            print(writer.dumps(found, indent=1))
            return
        from rich.console import Console

        from llamalloc.reporting import trace_page

        trace_page.show(found, Console(highlight=False))

    return _guarded(work)


@trace.command()
def cut(
    file: TraceFile,
    output: Output,
    events: Annotated[
        int | None, typer.Option(min=1, help="Keep at most this many events.")
    ] = None,
    start: Annotated[
        float | None, typer.Option("--from", min=0, help="Start of the part, in seconds.")
    ] = None,
    end: Annotated[
        float | None, typer.Option("--to", min=0, help="End of the part, in seconds.")
    ] = None,
) -> int:
    """Write part of a trace to a new trace.

    Objects that are alive when the part begins are allocated at its start. Unused stacks are left
    out.

    Examples:

        llamalloc trace cut t.trace -o first.trace --events 100000

        llamalloc trace cut t.trace -o load.trace --from 10 --to 20
    """
    from llamalloc.running import traces

    if start is not None and end is not None and start >= end:
        raise launch.LaunchError(f"--from {start:g} is not before --to {end:g}")

    file_kinds.check_output(output, file_kinds.TRACE, [file])

    def work() -> None:
        target = _writable(output)
        traces.cut(file, target, events=events, start=start, end=end)
        _say(traces.Recording(target, traces.info(target, 0)).text())

    return _guarded(work)


@trace.command()
def export(file: TraceFile, output: Output) -> int:
    """Write a trace as Parquet, one row per event. The stacks go into a second file next to it.

    contracts/trace_format.md describes the columns.

    Examples:

        llamalloc trace export t.trace -o t.parquet
    """
    from llamalloc.running import traces

    for written in (output, traces.stacks_path(output)):
        file_kinds.check_output(written, None, [file])

    def work() -> None:
        count = traces.export(file, _writable(output))
        _say(f"{output}: {count:,} events; stacks in {traces.stacks_path(output)}")

    return _guarded(work)


def _guarded(work: Any) -> int:
    from llamalloc.running.traces import TraceError

    try:
        work()
    except TraceError as error:
        _say(str(error))
        return 1
    return 0


def _writable(path: Path) -> Path:
    from llamalloc.running.traces import LONGEST_PATH

    try:
        path_pattern.check(str(path))
    except ValueError as error:
        raise launch.LaunchError(str(error)) from None
    if len(os.fsencode(path.absolute())) > LONGEST_PATH:
        raise launch.LaunchError(f"{path}: path is longer than {LONGEST_PATH} bytes")
    file_kinds.check_folder(path)
    try:
        return regular_file.replaced(path)
    except OSError as error:
        raise launch.LaunchError(f"{path}: {error.strerror}") from None


def _finish(path: Path, pack: bool) -> bool:
    from llamalloc.formats.units import bytes_text
    from llamalloc.running import children, traces

    others = traces.of_children(path)
    if told := children.number_told(path, others):
        _say(told)
    if not path.exists() and not others:
        _say(f"{path}: nothing was recorded; see the messages above, or llamalloc doctor")
        return False
    good = path.exists()
    for file in ([path] if good else []) + others:
        try:
            if pack and file.stat().st_size > _LARGE:
                _say(f"packing {file}: {bytes_text(file.stat().st_size)} were recorded")
            text = traces.finish(file, pack=pack).text()
            if file == path or not told:
                _say(text)
        except traces.TraceError as error:
            _say(str(error))
            good = False
    return good


def _say(text: str) -> None:
    print(f"llamalloc: {text}", file=sys.stderr)

# SPDX-License-Identifier: Apache-2.0
"""`llamalloc record`: run a program with the sampler on, or sample one that already runs."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from llamalloc.formats import file_kinds, path_pattern, units
from llamalloc.running import launch

_LONGEST = 24 * 3600  # seconds: option profile_duration
_NO_PROGRAM = "no program given; put it last, after --:  llamalloc record -o p.pb.gz -- ./server"


def record(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGS]", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="P.pb.gz", help="Profile to write.")
    ] = None,
    attach: Annotated[
        int | None,
        typer.Option(min=1, metavar="PID", help="Sample this running process; needs --for."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for",
            "--seconds",
            metavar="TIME",
            help="How long to sample: 30s, 5m, 1h. Default: until the program ends.",
        ),
    ] = None,
    interval: Annotated[
        str, typer.Option(help="Average number of bytes allocated between two samples.")
    ] = "64KiB",
    stats: Annotated[
        Path | None,
        typer.Option(
            help="Write statistics (JSON) to this file every `stats_flush` (10 s), and at the end."
        ),
    ] = None,
    control: Annotated[
        Path | None,
        typer.Option(help="Sample the process behind this control socket; needs --for."),
    ] = None,
    conf: Annotated[
        str, typer.Option(metavar="KEY:VALUE,...", help="Options of the library (docs/options.md).")
    ] = "",
) -> int:
    """Sample where a program allocates and how long its objects live.

    `llamalloc train` learns from the profile, and `pprof` opens it. The profile is written every
    two seconds, so a crash loses at most two seconds of samples. The exit code is that of the
    program, or 128 + n if signal n ended it, or 1 if the program succeeded but nothing was
    recorded.

    Programs that it starts are recorded too, each in its own file P.pb.gz.PID. The
    profile of an earlier run, P.pb.gz, is removed.

    --attach samples a process that already runs under llamalloc with the option `control` or
    `http`. It records what is allocated from now on. Afterwards the process samples as before. The
    exit code is then 0; 3 if the process does not run under llamalloc, or has neither option (the
    message says how to restart it); 1 for all other problems, as when the process has ended.

    Examples:

        llamalloc record -o p.pb.gz -- redis-server --port 7000

        llamalloc record -o p.pb.gz --for 5m --interval 512KiB -- ./server args

        llamalloc record -o p.pb.gz --attach 4711 --for 5m
    """
    if output is None:
        raise launch.LaunchError("-o FILE is missing; put options first and the program after --")
    if attach is not None and control is not None:
        raise launch.LaunchError("give --attach PID or --control PATH, not both")
    try:
        interval_bytes = units.parse_bytes(interval)
    except ValueError as error:
        raise launch.LaunchError(f"--interval: {error}") from None
    if interval_bytes == 0:
        raise launch.LaunchError("--interval: at least 1 byte, which samples every allocation")
    from llamalloc.cli.run import paths_of

    file_kinds.check_output(output, file_kinds.PROFILE)
    if stats is not None:
        file_kinds.check_output(stats, None, [output])
    profile = Path(paths_of(profile=output)["profile"])
    seconds = None if duration is None else _seconds(duration)
    if control is not None or attach is not None:
        if command:
            raise launch.LaunchError(
                "--attach samples a running program; do not give a program too"
            )
        if seconds is None:
            raise launch.LaunchError("--for TIME is missing: how long to sample, like 30s or 5m")
        return _attached(attach, control, profile, seconds, interval_bytes)
    if not command:
        raise launch.LaunchError(_NO_PROGRAM)
    options = launch.parse_conf(conf) | paths_of(stats=stats) | {
        "profile": str(profile),
        "profile_flush": "2s",
        "sample_interval": str(interval_bytes),
    }  # fmt: skip
    if seconds is not None:
        if seconds > _LONGEST:
            raise launch.LaunchError("--for: at most 24h; without --for, until the program ends")
        options["profile_duration"] = f"{round(seconds * 1000)}ms"
    return _started(command, options, profile)


def _started(command: list[str], options: dict[str, str], profile: Path) -> int:
    from llamalloc.formats.profile import is_profile
    from llamalloc.running import child, children

    library = launch.find_library()
    program = launch.checked(command[0])
    launch.environment(library, options)  # its errors belong before the fork
    name, now = launch.file_name(program), int(time.time())

    def own(pid: int) -> Path:
        return Path(path_pattern.filled(str(profile), pid, name, now))

    file_kinds.check_output(own(0), file_kinds.PROFILE)
    before = children.there(own(0))  # with %p in the name there are none of this run's pid

    def environment(pid: int) -> dict[str, str]:
        own(pid).unlink(missing_ok=True)
        path = path_pattern.literal(str(own(pid)))
        return launch.environment(library, options | {"owner_pid": str(pid), "profile": path})

    pids: list[int] = []
    status = child.run(program, command, environment, started=pids.append)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        _say(f"{command[0]} was ended by signal {-code}")
    path = own(pids[0])
    recorded = _finish_all(path, children.recorded(path, is_profile, before))
    return 128 - code if code < 0 else code or (0 if recorded else 1)


def _seconds(text: str) -> float:
    try:
        seconds = units.parse_seconds(text)
    except ValueError as error:
        raise launch.LaunchError(f"--for: {error}") from None
    if seconds < 0.1:
        raise launch.LaunchError("--for: at least 100ms")
    return seconds


def _attached(
    pid: int | None, control: Path | None, profile: Path, seconds: float, interval: int
) -> int:
    from llamalloc.running import attach
    from llamalloc.running.control import ControlError

    try:
        if pid is not None:
            target = attach.find(pid)
            name = (attach.PROC / str(pid) / "exe").readlink().name.removesuffix(" (deleted)")
            profile = Path(path_pattern.filled(str(profile), pid, name, int(time.time())))
        else:
            target = attach.Target(0, control, control)
        attach.sample(target, profile, seconds, interval)
    except attach.UnreachableError as error:
        _say(str(error))
        return 3
    except (attach.AttachError, ControlError) as error:
        _say(str(error))
        return 1
    except OSError as error:
        _say(f"{profile}: {error.strerror or error}")
        return 1
    return 0 if _finish(profile) else 1


def _finish_all(profile: Path, others: list[Path]) -> bool:
    """`others`: the profiles of processes that the program started. Whether one can be used."""
    from llamalloc.running import children

    if told := children.number_told(profile, others):
        _say(told)
    if not others:
        return _finish(profile)
    if not profile.exists():
        _say(f"{profile}: the program itself allocated too little to be sampled; what it started:")
    good = profile.exists() and _finish(profile)
    for file in others:
        good = _finish(file, quiet=bool(told)) or good
    return good


def _finish(profile: Path, quiet: bool = False) -> bool:
    from llamalloc.formats.profile import ProfileError
    from llamalloc.running import recording

    if not profile.exists():
        _say(f"{profile}: nothing was recorded; see the messages above, or llamalloc doctor")
        return False
    try:
        text = recording.finish(profile)
    except ProfileError as error:
        _say(str(error))
        return False
    except OSError as error:
        _say(f"{profile}: recorded, but not packed: {error.strerror or error}")
        return False
    if not quiet:
        _say(text)
    return True


def _say(text: str) -> None:
    print(f"llamalloc: {text}", file=sys.stderr)

# SPDX-License-Identifier: Apache-2.0
"""`llamalloc run`: replaces itself with the program, with the library preloaded."""

from __future__ import annotations

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from llamalloc.formats import file_kinds, path_pattern, regular_file
from llamalloc.running import child, launch, learn_place

LONGEST_PATH = {"control": 107, "stats": 1000, "profile": 1000}  # sockaddr_un; option text
_READ = {
    "model": "model; make one: llamalloc train -o {}",
    "conf_file": "file; write one KEY: VALUE per line into it (docs/options.md)",
}
_NO_PROGRAM = "no program given; put it last, after --:  llamalloc run -- ./server --port 1"


class Segregate(StrEnum):
    """The option `segregate` (docs/options.md)."""

    auto = "auto"
    always = "always"
    never = "never"


def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- PROGRAM [ARGS]", show_default=False)
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model that `llamalloc train` wrote; none: no predictions.")
    ] = None,
    learn: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Learn while the program runs, and keep that in this file for the next run; in a "
            "folder: a file for each program. `on`: keep nothing.",
        ),
    ] = None,
    segregate: Annotated[
        Segregate | None,
        typer.Option(
            help="When objects are placed by lifetime. auto, the default: while that measurably "
            "saves memory."
        ),
    ] = None,
    stats: Annotated[
        Path | None,
        typer.Option(
            help="Write statistics (JSON) to this file every `stats_flush` (10 s), and at the end."
        ),
    ] = None,
    control: Annotated[
        Path | None, typer.Option(help="Unix socket that accepts commands while the program runs.")
    ] = None,
    conf: Annotated[
        str, typer.Option(metavar="KEY:VALUE,...", help="Options of the library (docs/options.md).")
    ] = "",
    conf_file: Annotated[
        Path | None,
        typer.Option(help="File of options, one KEY: VALUE per line; --conf overrides it."),
    ] = None,
) -> None:
    """Run a program on llamalloc: plain, with a model, or so that it learns by itself.

    With --learn nothing has to be recorded or trained. The library samples how long objects live.
    It places them by that only while it measures that this saves memory. The next run begins with
    what this one learned (docs/learning.md). `llamalloc report FILE` shows it.

    Examples:

        llamalloc run -- redis-server --port 7000

        llamalloc run --learn /var/lib/llamalloc -- redis-server --port 7000

        llamalloc run --model m.model --stats s.json -- ./server args

        llamalloc run --conf release_delay:10s,retain:64MiB -- ./server
    """
    if not command:
        raise launch.LaunchError(_NO_PROGRAM)
    if stats is not None:
        file_kinds.check_output(stats, None, filter(None, (model, conf_file)))
    library = launch.find_library()
    program = launch.checked(command[0])
    name = launch.file_name(program)
    paths = paths_of(name, model=model, stats=stats, control=control, conf_file=conf_file)
    options = launch.parse_conf(conf) | paths
    options |= {"learn": learn} if learn else {}
    options |= {"segregate": segregate.value} if segregate else {}
    if options.get("learn"):
        options["learn"] = learn_place.checked(options["learn"], name)
        if note := learn_place.note(options["learn"], name):
            print(f"llamalloc: {note}", file=sys.stderr)
    environment = launch.environment(library, options)
    with child.signals_as_given():
        os.execve(program, command, environment)


def paths_of(program: str = "", **files: Path | None) -> dict[str, str]:
    """The named files as options, absolute since the program may change its folder.

    They may have %p, %e and %t (formats/path_pattern.py); `program` is what %e stands for. Raises
    LaunchError for a model that is not readable, or a file whose folder does not exist.
    """
    for name, file in files.items():
        if file is not None:
            _check_pattern(name, file, program)
    return {name: str(_place(name, file)) for name, file in files.items() if file is not None}


def _place(name: str, file: Path) -> Path:
    """The profile is packed anew in the end, so it must be a file that can be replaced."""
    try:
        return (regular_file.replaced(file) if name == "profile" else file).absolute()
    except OSError as error:
        raise launch.LaunchError(f"{file}: {error.strerror}") from None


def _check_pattern(name: str, file: Path, program: str) -> None:
    try:
        path = path_pattern.filled(str(file), "4194304", program, int(time.time()))
    except ValueError as error:
        raise launch.LaunchError(str(error)) from None
    if name not in _READ or not path_pattern.is_pattern(str(file)):
        _check(name, Path(path))


def _check_model(file: Path) -> None:
    """The library would refuse it, and the program run without predictions."""
    from llamalloc.formats import model_file

    try:
        model_file.read(file)
    except model_file.ModelError as error:
        raise launch.LaunchError(f"{error}; llamalloc train writes models") from None


def _check(name: str, file: Path) -> None:
    if name in _READ:
        if file.exists() and not file.is_file():
            raise launch.LaunchError(
                f"{file}: not a file; name the {name.replace('_', ' ')} itself"
            )
        if not file.is_file():
            raise launch.LaunchError(f"{file}: no such {_READ[name].format(file)}")
        if not os.access(file, os.R_OK):
            raise launch.LaunchError(f"{file}: not readable by this user")
        if name == "model":
            _check_model(file)
    elif file.is_dir():
        raise launch.LaunchError(f"{file}: is a folder; name a file in it")
    elif len(os.fsencode(file.absolute())) > LONGEST_PATH[name]:
        raise launch.LaunchError(f"{file}: path is longer than {LONGEST_PATH[name]} bytes")
    else:
        file_kinds.check_folder(file)

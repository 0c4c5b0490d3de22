# SPDX-License-Identifier: Apache-2.0
"""Where a program keeps what it learns (option `learn`): which file that is, and what would keep
the library from using it. Without these checks the program runs, but keeps nothing.

    PLACE is a folder, or ends in /    PLACE/NAME.learned, a file for each program
    any other PLACE                    that file
    a flag (on, off, true, ...)        nothing is kept, or nothing is learned

Source: contracts/learned_state.md (Which file, Reading).
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from llamalloc.formats import learned_state, path_pattern
from llamalloc.running.launch import LaunchError

_FLAGS = dict.fromkeys(path_pattern.ON, True) | dict.fromkeys(path_pattern.OFF, False)
_LONGEST = 1000  # option text
_NAME = 199  # bytes of a program's name in the name of its file
_NAME_INSIDE = 31  # and in the file
_ANOTHER = "name another file, or a folder (it gets a file for each program)"


def file_of(place: str, program: str) -> Path:
    """The state file of the program with this name."""
    if not _is_folder(place):
        return Path(place)
    return Path(place) / f"{_shown(program)[:_NAME]}.learned"


def flag(place: str) -> bool | None:
    """What the place says if it is a flag and no path."""
    return _FLAGS.get(place.lower())


def checked(place: str, program: str) -> str:
    """`place` for the option, absolute since the program may change its folder.

    `program`: the name of the file that the kernel loads; empty: not known. Raises LaunchError.
    """
    if flag(place) is not None:
        return place
    try:
        here = path_pattern.filled(place, "%p", program or "%e", "%t")
        _check(file_of(here, program), of_all=program == "" and _is_folder(here))
    except ValueError as error:
        raise LaunchError(str(error)) from None
    except OSError as error:
        raise LaunchError(
            f"{place}: {(error.strerror or str(error)).lower()}; {_ANOTHER}"
        ) from error
    return str(Path(place).absolute()) + ("/" if place.endswith("/") else "")


def note(place: str, program: str) -> str:
    """What a person should know of a place that passed checked(): that the file there was learned
    in another program, which leaves it alone. `program` may still be what starts that one: a shell,
    env, numactl."""
    if not program or flag(place) is not None:
        return ""
    file = file_of(path_pattern.filled(place, "%p", program, "%t"), program)
    if not file.is_file():
        return ""
    try:
        learned_in = learned_state.read(file).name
    except (OSError, learned_state.StateError):
        return ""  # damaged: the library says so, and writes a new one
    ours = _shown(program)[:_NAME_INSIDE]
    if learned_in == ours:
        return ""
    return f"{file}: learned in {learned_in}; if {ours} does not start that, {_ANOTHER}"


def _is_folder(place: str) -> bool:
    return place.endswith("/") or Path(place).is_dir()


def _check(file: Path, of_all: bool) -> None:
    if len(os.fsencode(file.absolute())) > _LONGEST:
        raise LaunchError(f"{file}: path is longer than {_LONGEST} bytes; {_ANOTHER}")
    _check_folder(file.parent)
    if not of_all:
        _check_file(file)


def _shown(name: str) -> str:
    plain = "".join(chr(b) if 0x20 < b < 0x7F and b != 0x2F else "_" for b in os.fsencode(name))
    return plain or "program"


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise LaunchError(f"{folder}: no such folder; make it: mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        cure = "give the program's user the right to write there, or name another folder"
        raise LaunchError(f"{folder}: not writable, so nothing learned would be kept; {cure}")


def _check_file(file: Path) -> None:
    if not file.exists():
        return
    if not file.is_file():
        raise LaunchError(f"{file}: not a regular file; {_ANOTHER}")
    if not os.access(file, os.R_OK):
        raise LaunchError(f"{file}: not readable by this user; correct that, or {_ANOTHER}")
    _check_start(file)


def _check_start(file: Path) -> None:
    magic = learned_state.MAGIC
    with file.open("rb") as stream:
        start = stream.read(len(magic) + 4)
    if file.stat().st_size > learned_state.MAX_BYTES or not _may_begin_as(start, magic):
        raise LaunchError(f"{file}: not a state file; {_ANOTHER}")
    if len(start) == len(magic) + 4 and start.startswith(magic):
        (version,) = struct.unpack("<I", start[len(magic) :])
        if version not in learned_state.READABLE:
            told = f"state file of version {version}, not {learned_state.READABLE_TEXT}"
            raise LaunchError(f"{file}: {told}; remove it, or {_ANOTHER}")


def _may_begin_as(start: bytes, magic: bytes) -> bool:
    return not any(start) or magic.startswith(start[: len(magic)])

# SPDX-License-Identifier: Apache-2.0
"""How a program is started under the library: find both, check that preloading can work, set the
environment.

    LD_PRELOAD=.../libllamalloc.so  LLAMALLOC_CONF=key:value,key:value  ./server args

Starting must be quick (`llamalloc run` stands before every start of a server), so only the
standard library is imported here.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llamalloc.formats import contracts, elf, places

LIBRARY = "libllamalloc.so"
# What our tools print: a path may hold any bytes, and so may the names in a damaged file.
TOOL_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}


class LaunchError(RuntimeError):
    """The program cannot be started under the library. One message: cause and cure."""


@dataclass(frozen=True)
class Obstacle:
    """Why preloading into a program cannot work, and what to do instead."""

    cause: str
    cure: str


def find_library(name: str = LIBRARY) -> Path:
    """The library: $LLAMALLOC_LIBRARY, else a checkout's build, else an installed one.

    Another `name` is looked for in the same places; $LLAMALLOC_LIBRARY then tells the folder.
    """
    if named := os.environ.get("LLAMALLOC_LIBRARY"):
        found = Path(named) if name == LIBRARY else Path(named).with_name(name)
        if found.is_file():
            found = found.absolute()
            return found if _fits(found) and not _fits(found.resolve()) else found.resolve()
        if name != LIBRARY:
            raise LaunchError(
                f"{found}: no such file; run `make build`, or unset LLAMALLOC_LIBRARY"
            )
        raise LaunchError(f"LLAMALLOC_LIBRARY={named}: no such file; name the built {LIBRARY}")
    for place in places.LIBRARY_FOLDERS:
        if (place / name).is_file():
            return place / name
    looked = ", ".join(str(place) for place in places.LIBRARY_FOLDERS)
    raise LaunchError(f"{name} is not in {looked}: run `make build`, or set LLAMALLOC_LIBRARY")


def find_tool(name: str) -> Path:
    """The C++ tool `name` of the library's own build or installation. Raises LaunchError."""
    library = find_library()
    folders = places.tool_folders(library.parent)
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return folder / name
    looked = " or ".join(str(folder) for folder in folders)
    raise LaunchError(f"{name} is not in {looked}: run `make build`")


def find_program(name: str) -> Path:
    """The file that `name` runs, by PATH as execvp does. Raises LaunchError."""
    if found := shutil.which(name):
        return Path(found)
    if "/" not in name:
        raise LaunchError(f"{name}: not found in PATH; give the path of the program")
    if not Path(name).exists():
        raise LaunchError(f"{name}: no such file")
    if Path(name).is_dir():
        raise LaunchError(f"{name}: is a folder; name the program in it")
    raise LaunchError(f"{name}: not executable; use `chmod +x` or another file")


def loaded_file(program: Path, depth: int = 4) -> Path:
    """The ELF file that the kernel loads for `program`: for a script, its interpreter."""
    with program.open("rb") as file:
        head = file.read(256)
    if not head.startswith(b"#!") or depth == 0:
        return program
    words = head[2:].split(b"\n")[0].split()
    if not words:
        raise LaunchError(f"{program}: the first line names no interpreter")
    return loaded_file(find_program(os.fsdecode(words[0])), depth - 1)


def file_name(program: Path) -> str:
    """The name by which the library knows `program` (src/os/path.h)."""
    return loaded_file(program).resolve().name


def obstacle(program: Path) -> Obstacle | None:
    """What keeps the library out of `program`; None if nothing does."""
    try:
        file = loaded_file(program)
        facts = elf.read(file)
    except (elf.ElfError, OSError) as error:
        return Obstacle(f"{program}: {error}", "name the program itself")
    return _raised_rights(file) or _unfit(file, facts)


def _raised_rights(file: Path) -> Obstacle | None:
    status = file.stat()
    cure = "run a copy without these rights, or link the library in"
    if status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid():
        return Obstacle(f"{file} is setuid, so the loader ignores LD_PRELOAD", cure)
    if status.st_mode & stat.S_ISGID and status.st_gid != os.getegid():
        return Obstacle(f"{file} is setgid, so the loader ignores LD_PRELOAD", cure)
    if has_capabilities(file) and os.geteuid() != 0:
        return Obstacle(f"{file} has file capabilities, so the loader ignores LD_PRELOAD", cure)
    return None


def has_capabilities(file: Path) -> bool:
    """Whether the file carries capabilities (capabilities(7))."""
    try:
        return bool(os.getxattr(file, "security.capability"))
    except OSError:
        return False


def _unfit(file: Path, facts: elf.Elf) -> Obstacle | None:
    if facts.bits != 64 or facts.machine not in (elf.X86_64, elf.AARCH64):
        return Obstacle(f"{file} is not a 64-bit program for this machine", "use a 64-bit build")
    if facts.is_static:
        return Obstacle(f"{file} is statically linked: nothing can be preloaded", _RELINK)
    if "ld-musl" in (facts.interpreter or ""):
        return Obstacle(f"{file} is linked to musl, the library to glibc", "use a glibc build")
    if any("libasan" in name or "libtsan" in name for name in facts.needed):
        return Obstacle(f"{file} is a sanitizer build, which brings its own malloc", _PLAIN)
    if "malloc" in facts.defined:
        return Obstacle(f"{file} has its own malloc linked in, which is used instead", _RELINK)
    return None


_RELINK = "link it dynamically, without another malloc"
_PLAIN = "use a build without -fsanitize"


def checked(program: str) -> Path:
    """The program's file if the library can be preloaded into it. Raises LaunchError otherwise."""
    path = find_program(program)
    if found := obstacle(path):
        raise LaunchError(f"{found.cause}; {found.cure}")
    return path


def parse_conf(text: str) -> dict[str, str]:
    """ "key:value,key:value" as a dict. Raises LaunchError for a key that options.def lacks."""
    return _known(dict(_pair(item) for item in text.split(",") if item.strip()))


LARGEST_CONF_FILE = 64 * 1024  # as src/base/options.h reads


def parse_conf_file(path: Path) -> dict[str, str]:
    """The options of a file, one "key: value" a line. Raises LaunchError with the file's name."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_CONF_FILE:
            raise LaunchError(
                f"{path}: not a regular file, or larger than {LARGEST_CONF_FILE >> 10} KiB"
            )
        lines = [line.strip() for line in path.read_text("utf-8", "replace").splitlines()]
        return _known(dict(_pair(line) for line in lines if line and not line.startswith("#")))
    except OSError as error:
        raise LaunchError(f"{path}: {error.strerror}") from error
    except LaunchError as error:
        raise LaunchError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from error


def _known(pairs: dict[str, str]) -> dict[str, str]:
    known = {option.name for option in contracts.options()}
    if unknown := [key for key in pairs if key not in known]:
        raise LaunchError(f"no option {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    return pairs


def _pair(item: str) -> tuple[str, str]:
    key, colon, value = item.partition(":")
    if not colon:
        raise LaunchError(f"option {item!r} is not key:value")
    return key.strip(), value.strip()


def conf_text(options: Mapping[str, str]) -> str:
    """The inverse of `parse_conf`. Raises LaunchError for a value that the format cannot carry."""
    for key, value in options.items():
        if "," in value:
            raise LaunchError(f"{key}: {value!r} contains a comma, which separates options")
    return ",".join(f"{key}:{value}" for key, value in options.items())


def _fits(library: Path) -> bool:
    return not set(str(library)) & set(" :")  # they separate the paths of LD_PRELOAD


def _check_preloadable(library: Path) -> None:
    """Where the loader cannot use it, it says so, and runs the program without it."""
    if not _fits(library):
        cure = "link or move its folder to another path"
        raise LaunchError(f"{library}: LD_PRELOAD holds no path with a space or colon; {cure}")
    try:
        elf.read(library)
    except (elf.ElfError, OSError) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise LaunchError(f"{library}: {cause}; name the built {LIBRARY}") from None


def environment(
    library: Path, options: Mapping[str, str], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """`base` (default: ours) with the library first in LD_PRELOAD, and the options over those of
    LLAMALLOC_CONF that were there."""
    _check_preloadable(library)
    env = dict(os.environ if base is None else base)
    others = [p for p in env.get("LD_PRELOAD", "").replace(":", " ").split() if p != str(library)]
    env["LD_PRELOAD"] = ":".join([str(library), *others])
    try:
        before = parse_conf(env.get("LLAMALLOC_CONF", ""))
    except LaunchError as error:
        raise LaunchError(f"LLAMALLOC_CONF: {error}") from None
    merged = before | dict(options)
    env["LLAMALLOC_CONF"] = conf_text(merged)
    return env

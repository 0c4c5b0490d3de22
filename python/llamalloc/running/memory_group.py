# SPDX-License-Identifier: Apache-2.0
"""A memory control group for a program of ours, so that what it is charged for can be told.

    with MemoryGroup.made("name") as group:      # None where no group can be made
        subprocess.Popen([*prefix(group, {"LD_PRELOAD": ...}), program, ...])
        group.read().charge

Where none can be made, RSS is all that there is; WITHOUT says so in a line of output. A group is
always removed, with what may still run in it. One whose maker was killed goes with the next.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from llamalloc.running.charge import ROOT, Group, Version, memory_root, of_process
from llamalloc.running.procmem import PROC

WITHOUT = "no memory control group can be made here, so memory is RSS; root may make one"
OWN = ("LD_PRELOAD", "LLAMALLOC_CONF", "GLIBC_TUNABLES")  # of the program, not of what starts it
_PREFIX = "llamalloc-"
_NUMBERS = itertools.count()
_PATIENCE = 2.0  # seconds: a group can be removed a moment after its last process has ended


def prefix(group: MemoryGroup | None, variables: dict[str, str]) -> list[str]:
    """Words before a command that run it in the group, with these variables set for it alone."""
    words = [f"{name}={value}" for name, value in variables.items()]
    return group.prefix(words) if group else ["env", *words]


def entered(
    group: MemoryGroup | None, words: Sequence[str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """(command, environment) of a program in the group: what preloads is not for the shell."""
    own = {name: environment[name] for name in OWN if name in environment}
    shared = {name: value for name, value in environment.items() if name not in OWN}
    return [*prefix(group, own), *words], shared


@dataclass(frozen=True)
class MemoryGroup(Group):
    """A group that we made."""

    def prefix(self, words: list[str]) -> list[str]:
        """A shell moves itself and becomes the command: Python cannot run code between fork and
        exec in a process that has threads."""
        enter = 'echo $$ > "$0" && exec env "$@"'
        return ["sh", "-c", enter, str(self.folder / "cgroup.procs"), *words]

    def limit(self, size: int) -> None:
        """The kernel kills what needs more. Raises OSError."""
        (self.folder / self.version.limit).write_text(str(size))

    def remove(self) -> None:
        """Ends what still runs in it."""
        deadline = time.monotonic() + _PATIENCE
        while not _removed(self.folder) and time.monotonic() < deadline:
            _end_all(self.folder)
            time.sleep(0.02)

    @classmethod
    @contextlib.contextmanager
    def made(cls, name: str, root: Path = ROOT, proc: Path = PROC) -> Iterator[MemoryGroup | None]:
        """A new group of this process's id; None where the system gives none."""
        group = cls._create(f"{_PREFIX}{name}.{next(_NUMBERS)}-{os.getpid()}", root, proc)
        try:
            yield group
        finally:
            if group:
                group.remove()

    @classmethod
    def _create(cls, name: str, root: Path, proc: Path) -> MemoryGroup | None:
        found = memory_root(root)
        if found is None:
            return None
        top, version = found
        for parent in _parents(top, version, root, proc):
            _remove_left(parent, proc)
            if group := _created(cls, parent / name, version):
                return group
        return None


def _created(cls: type[MemoryGroup], folder: Path, version: Version) -> MemoryGroup | None:
    """None: not permitted, or a parent without the memory controller for its children."""
    group = cls(folder, version)
    try:
        _removed(folder)  # of an earlier process with our number
        folder.mkdir()
    except OSError:
        return None
    if (folder / version.usage).exists() and os.access(folder / "cgroup.procs", os.W_OK):
        return group
    group.remove()
    return None


def _parents(top: Path, version: Version, root: Path, proc: Path) -> Iterator[Path]:
    """Where a group may be made: at the top, else in our own group or one above it."""
    yield top
    own = of_process(os.getpid(), root, proc)
    folder = own.folder if own else top
    while folder != top:
        yield folder
        folder = folder.parent


def _remove_left(parent: Path, proc: Path) -> None:
    """Groups of ours whose maker has gone."""
    for folder in parent.glob(f"{_PREFIX}*-*"):
        maker = folder.name.rpartition("-")[2]
        if maker.isdecimal() and not (proc / maker).exists():
            _removed(folder)  # stays while a process is in it


def _removed(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        try:
            folder.rmdir()
        except OSError:
            return False
    return True


def _end_all(folder: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        for pid in (folder / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)

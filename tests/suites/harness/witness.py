# SPDX-License-Identifier: Apache-2.0
"""Watches the processes below this one: which programs had the allocator mapped, which had not.

Suites clean environments, and servers leave their parents. This process adopts what is orphaned
below it, looks at /proc several times a second, and ends what is left when a run is over.
"""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path

INTERVAL = 0.2  # seconds between two looks
SEEN_WITHOUT = 3  # looks at a process without the allocator: it is not merely being loaded
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """Makes this process the parent of every orphan below it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parents() -> dict[int, int]:
    """Parent by process, for all of the machine."""
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                stat = Path(entry.path, "stat").read_text(errors="replace")
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def descendants(of: int, parent: dict[int, int]) -> set[int]:
    """All processes below `of`."""
    children = defaultdict(list)
    for child, its_parent in parent.items():
        children[its_parent].append(child)
    found, ahead = set(), [of]
    while ahead:
        new = [child for child in children[ahead.pop()] if child not in found]
        found.update(new)
        ahead += new
    return found


def is_zombie(process: int) -> bool:
    with suppress(OSError):
        return Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False


def reap(adopted: set[int]) -> None:
    """Takes the status of adopted processes that ended, as init would: tests wait for that."""
    for process in filter(is_zombie, adopted):
        with suppress(OSError):
            os.waitpid(process, os.WNOHANG)


def end_all() -> None:
    """Kills every process below this one, until none is left; gives up after 5 s."""
    end = time.monotonic() + 5
    while (left := descendants(os.getpid(), parents())) and time.monotonic() < end:
        for process in left:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
            with suppress(OSError):
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.02)


class Witness:
    """`with Witness(library) as witness:` then witness.programs().

    `library`: the file that is to be mapped; None: no process is looked at.
    """

    def __init__(self, library: Path | None):
        self.library = str(library) if library else None
        self._with: dict[int, str] = {}
        self._without: dict[int, list[str]] = defaultdict(list)
        self._own: set[int] = set()  # children that somebody here waits for
        self._starting = threading.Lock()  # nothing is reaped between a start and its entry above
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Witness":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def start(self, *words: object, **options: object) -> subprocess.Popen:
        """Popen(), by which every process must be started while this watches."""
        with self._starting:
            process = subprocess.Popen(*words, **options)
            self._own.add(process.pid)
        return process

    def _watch(self) -> None:
        me = os.getpid()
        while not self._over.wait(INTERVAL):
            with self._starting:
                parent = parents()
                reap({p for p, its_parent in parent.items() if its_parent == me} - self._own)
            for process in descendants(me, parent) - self._with.keys() if self.library else ():
                with suppress(OSError):
                    self._look(process)

    def _look(self, process: int) -> None:
        folder = Path("/proc", str(process))
        program = (folder / "exe").readlink().name
        maps = (folder / "maps").read_text(errors="replace")
        if self.library in maps:
            self._with[process] = program
            self._without.pop(process, None)
        elif maps:
            self._without[process].append(program)

    def programs(self) -> dict[str, list[int]]:
        """Program -> processes seen with the allocator, and without it."""
        had = Counter(self._with.values())
        had_not = Counter(p[-1] for p in self._without.values() if len(p) >= SEEN_WITHOUT)
        return {name: [had[name], had_not[name]] for name in sorted(had | had_not)}

# SPDX-License-Identifier: Apache-2.0
"""What a recipe is: one program, its load, and what both need."""

from __future__ import annotations

import fcntl
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lab.places import BUILD, ROOT


class WorkloadError(RuntimeError):
    """The workload cannot run or failed; one message with cause and cure."""


@dataclass
class Session:
    """One run. `folder` is its own and empty at first; `scale` multiplies the load."""

    folder: Path
    port: int
    scale: float
    seed: int
    say: Callable[[str], None]

    def scaled(self, count: int, least: int = 1) -> int:
        """`count` times the scale, `least` at least."""
        return max(least, round(count * self.scale))

    def random(self, *salt: int) -> random.Random:
        """Numbers that depend on the run's seed and on `salt` alone."""
        return random.Random(f"{self.seed} {salt}")


class Recipe:
    """One program. A server overrides `ready` and `load`; a batch program just ends by itself."""

    name: str = ""
    title: str = ""  # what it is and does, for `python -m lab.workloads list`
    memory: str = ""  # what it does to memory
    packages: tuple[str, ...] = ()  # Debian packages, rows of scripts/setup.sh group workloads
    programs: tuple[str, ...] = ()  # commands or absolute files that must be there
    install: str = ""  # how to get them, where not by `packages`
    seconds: int = 30  # about how long it takes, plain, on two cores
    environment: Mapping[str, str] = MappingProxyType({})
    good_ends: tuple[int, ...] = (0,)
    # The line, as a pattern, in which a program says what it computed when its load is over. It
    # then keeps what stays for three seconds, and ends. Empty: it says nothing of that kind.
    result: str = ""

    def missing(self) -> list[str]:
        """Those of `programs` that are not installed."""
        return [p for p in self.programs if not (Path(p).exists() or shutil.which(p))]

    def prepare(self, session: Session) -> None:
        """Makes inputs; not measured, and not under the allocator."""

    def command(self, session: Session) -> list[str]:
        """The program and its arguments."""
        raise NotImplementedError

    def is_server(self) -> bool:
        """Whether it must be told to end."""
        return type(self).load is not Recipe.load

    def ready(self, session: Session) -> bool:
        """Whether a server takes requests."""
        return True

    def load(self, session: Session) -> None:
        """Drives a server; returns when done, and SIGTERM ends it."""

    def most_live(self, session: Session) -> int:
        """The most bytes that a server says it had allocated at any time; 0: it says nothing."""
        return 0


class BuiltRecipe(Recipe):
    """A program of workloads/ that is built with nothing but a compiler."""

    packages = ("g++", "cmake", "ninja-build")
    programs = ("cmake", "ninja")


def built(name: str) -> Path:
    """The program of a CMake target under workloads/, built if it is not up to date."""
    return target(name).parent / "workloads" / name


def target(name: str) -> Path:
    """The program of a CMake target, built if it is not up to date; one process at a time."""
    with (ROOT / "build" / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _check_output(["cmake", "--preset", "release"], not (BUILD / "build.ninja").exists())
        _check_output(["cmake", "--build", "--preset", "release", "--target", name], True)
    return BUILD / name


def _check_output(command: list[str], needed: bool) -> None:
    if not needed:
        return
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = [line for line in done.stdout.splitlines() if "error" in line] or [done.stderr]
        raise WorkloadError(f"{' '.join(command)} failed: {words[0].strip()}")

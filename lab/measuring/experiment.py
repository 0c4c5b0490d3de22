# SPDX-License-Identifier: Apache-2.0
"""Tells a holder what to do and reads its RSS and its group's charge, ten times a second."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.launcher import clean_environment
from llamalloc.running import procmem
from llamalloc.running.charge import ChargeError
from llamalloc.running.memory_group import MemoryGroup, prefix

HOLDER = Path(__file__).with_name("holder.py")
PERIOD = 0.1
_TRIES = 5
MARGIN = 8 << 20  # bytes above RSS to which pressure lowers the limit


class ExperimentError(RuntimeError):
    """A step failed; one message."""


@dataclass(frozen=True)
class Step:
    """What is done, and for how many seconds it is watched then. `limit`: the group's limit is
    lowered instead, to just above RSS."""

    word: str
    title: str
    seconds: float = 1.0
    limit: bool = False


_FILL = Step("fill", "filled")
_FREED = Step("give-back", "7/8 given back", 3.0)
_PRESSED = Step("", "limit lowered", 2.0, limit=True)


@dataclass(frozen=True)
class Way:
    """One run of the experiment."""

    title: str
    steps: tuple[Step, ...]


WAYS = (
    Way("small pages", (Step("fill-small", "filled"), _FREED)),
    Way("huge pages, MADV_DONTNEED", (_FILL, _FREED)),
    Way("huge pages, munmap", (_FILL, Step("unmap", "7/8 unmapped", 3.0))),
    Way("huge pages, memory pressure", (_FILL, _FREED, _PRESSED)),
    Way("huge pages, MADV_COLD on what stays", (_FILL, _FREED, Step("cold", "MADV_COLD", 2.0))),
)


@dataclass(frozen=True)
class Sample:
    """Bytes at a time in seconds; `charge` None: there is no group."""

    at: float
    rss: int
    huge: int
    charge: int | None


@dataclass
class Found:
    """What one way showed. `ends[i]`: the last sample of step i, less the empty process.

    `notes`: steps that this system cannot do.
    """

    way: Way
    samples: list[Sample] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ends: list[Sample] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run(way: Way, pages: int, patience: float = 1.0) -> Found:
    """`patience` multiplies the time that each step is watched. Raises ExperimentError."""
    with MemoryGroup.made("measuring") as group, _holder(pages, group) as process:
        return _Run(process, group, Found(way), patience).all()


@contextmanager
def _holder(pages: int, group: MemoryGroup | None) -> Iterator[subprocess.Popen]:
    words = [*prefix(group, {}), sys.executable, "-I", "-S", str(HOLDER), str(pages)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, env=clean_environment(), **pipes) as process:
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait()


class _Run:
    def __init__(
        self, process: subprocess.Popen, group: MemoryGroup | None, found: Found, patience: float
    ) -> None:
        self._process, self._group, self._found = process, group, found
        self._patience, self._start = patience, time.monotonic()
        self._do("start")  # it answers once it runs
        self._empty = self._read()

    def all(self) -> Found:
        for step in self._found.way.steps:
            self._found.begins.append(time.monotonic() - self._start)
            if step.limit:
                self._press()
            elif (answer := self._do(step.word)) != "ok":
                self._found.notes.append(answer)
            self._found.ends.append(self._watch(step.seconds * self._patience))
        if (answer := self._do("check")) != "ok":
            raise ExperimentError(f"{self._found.way.title}: {answer}")
        return self._found

    def _do(self, word: str) -> str:
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise ExperimentError(f"{self._found.way.title}: the process ended at `{word}`")
        return answer

    def _press(self) -> None:
        """The kernel reclaims until the limit holds, or refuses it."""
        if self._group is None:
            return
        limit = procmem.read_memory(self._process.pid).rss + MARGIN
        if refused := _refused(self._group, limit):
            self._found.notes.append(f"the limit was not lowered ({refused})")

    def _watch(self, seconds: float) -> Sample:
        deadline = time.monotonic() + seconds
        while True:
            sample = self._less_empty(self._read())
            self._found.samples.append(sample)
            if time.monotonic() >= deadline:
                return sample
            time.sleep(PERIOD)

    def _read(self) -> Sample:
        at = time.monotonic() - self._start
        memory = procmem.read_memory(self._process.pid)
        try:
            charge = self._group.read().charge if self._group else None
        except ChargeError as error:
            raise ExperimentError(str(error)) from error
        return Sample(at, memory.rss, memory.anon_huge_pages, charge)

    def _less_empty(self, now: Sample) -> Sample:
        charge = None if now.charge is None else now.charge - (self._empty.charge or 0)
        return Sample(now.at, now.rss - self._empty.rss, now.huge, charge)


def _refused(group: MemoryGroup, limit: int) -> str:
    """Why the kernel did not take the limit; empty if it did. Busy: it has not reclaimed enough."""
    reason = ""
    for _ in range(_TRIES):
        try:
            group.limit(limit)
        except OSError as error:
            reason = error.strerror
            time.sleep(PERIOD)
        else:
            return ""
    return reason

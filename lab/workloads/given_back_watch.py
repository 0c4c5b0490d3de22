# SPDX-License-Identifier: Apache-2.0
"""A program that frees in one way: what is counted as given back, and how far the charge falls.

(started) -> fills, waits -> free -> look, look, ...: the counters first, then the group's charge

Both are counted from before the first free.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lab.launcher import clean_environment
from lab.workloads.recipe import WorkloadError, built
from llamalloc.running import control, procmem, residency
from llamalloc.running.memory_group import MemoryGroup, prefix

KINDS = MappingProxyType(
    {
        "empty": "empty huge pages (`huge_pages_released`)",
        "sparse": "the free part of broken pages (`bytes_broken`)",
        "mappings": "freed mappings (the rest of the fall of `backed`)",
    }
)
WITHIN = 1.0  # seconds from the counter to the charge
PERIOD = 0.05  # seconds from look to look
_HUGE_PAGE = 2 << 20
_PATIENCE = 20.0  # seconds


@dataclass(frozen=True)
class Counts:
    """Bytes that went back in each of the three ways."""

    empty: int
    sparse: int
    mappings: int

    def all(self) -> int:
        return self.empty + self.sparse + self.mappings


@dataclass(frozen=True)
class Sample:
    """At a time in seconds: what was counted since the start, and how far charge and RSS fell."""

    at: float
    counted: Counts
    charge: int
    rss: int

    def left(self, kind: str, figure: str) -> int:
        """What left, less what is due to the other ways."""
        others = self.counted.all() - getattr(self.counted, kind)
        return getattr(self, figure) - others


def late(samples: Sequence[Sample], kind: str, figure: str = "charge") -> int:
    """The most bytes that had been counted for WITHIN and were still there."""
    times = [sample.at for sample in samples]
    most = 0
    for sample in samples:
        then = samples[bisect_right(times, sample.at + WITHIN) - 1]
        if then is not sample:
            most = max(most, getattr(sample.counted, kind) - then.left(kind, figure))
    return most


def counts(before: dict[str, int], now: dict[str, int]) -> Counts:
    """Of two statistics. Mappings have no counter: they are what else left `backed`."""
    empty = (now["huge_pages_released"] - before["huge_pages_released"]) * _HUGE_PAGE
    sparse = now["bytes_broken"] - before["bytes_broken"]
    return Counts(empty, sparse, max(0, before["backed"] - now["backed"] - empty - sparse))


class Program:
    """It has filled its memory and waits. Looks raise OSError or ControlError when it is gone."""

    def __init__(self, process: subprocess.Popen, group: MemoryGroup, socket: Path) -> None:
        self._process, self._group, self._socket = process, group, socket
        self.live = self._said("live")
        self._wait_for_socket()
        self._start = time.monotonic()
        self._before = self._statistics()
        self._charge, self._rss = self._memory()

    def free(self) -> int:
        """Returns how many bytes it freed."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._said("freed")

    def look(self) -> Sample:
        """The counters are older than the memory, never newer."""
        now = self._statistics()
        at = time.monotonic() - self._start
        charge, rss = self._memory()
        return Sample(at, counts(self._before, now), self._charge - charge, self._rss - rss)

    def _statistics(self) -> dict[str, int]:
        return control.stats(self._socket)["stats"]

    def _memory(self) -> tuple[int, int]:
        pages = int(procmem.read_text(f"/proc/{self._process.pid}/statm").split()[1])
        return self._group.read().charge, pages * residency.PAGE

    def _said(self, name: str) -> int:
        line = self._process.stdout.readline()
        if not line:
            raise WorkloadError(f"given_back ended with {self._process.wait()}")
        return json.loads(line)[name]

    def _wait_for_socket(self) -> None:
        """The library's own thread opens it."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            with suppress(control.ControlError):
                control.ask(self._socket, "get backed")
                return
            time.sleep(0.02)
        raise WorkloadError("given_back opened no control socket: is the library preloaded?")


@contextmanager
def started(group: MemoryGroup, kind: str, mib: int, library: Path, conf: str) -> Iterator[Program]:
    """It runs in the group, on the library. Raises WorkloadError."""
    command = [str(built("given_back")), "--kind", kind, "--live", str(mib)]
    with tempfile.TemporaryDirectory(prefix="llamalloc-") as folder:
        socket = Path(folder) / "control"
        options = ",".join(filter(None, (f"control:{socket}", conf)))
        words = prefix(group, {"LD_PRELOAD": str(library), "LLAMALLOC_CONF": options})
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([*words, *command], env=clean_environment(), **pipes) as process:
            try:
                yield Program(process, group, socket)
            finally:
                process.stdin.close()
                process.wait()

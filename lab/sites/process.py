# SPDX-License-Identifier: Apache-2.0
"""One run of one program under one allocator, and its memory after the drop.

start in a memory group -> its line of JSON -> settle -> RSS, 2 MiB regions, charge -> end
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from lab.memory_group import MemoryGroup
from llamalloc.running import procmem, residency


class RunError(RuntimeError):
    """A program could not run; the message holds its last words."""


OWN = ("LD_PRELOAD", "LLAMALLOC_CONF")  # variables of the program, not of what starts it


@dataclass
class Figures:
    """Of one run. Bytes and seconds; `charge` None: no memory group can be made here.

    After the drop: `live` is what the program holds, `regions` all 2 MiB regions with memory behind
    them. `average` is the mean RSS of the whole run, `cpu` of all threads until the measurement.
    """

    live: int
    rss: int
    regions: int
    charge: int | None
    fill: float
    drop: float
    average: int = 0
    cpu: float = 0.0
    said: list[str] = field(default_factory=list)
    statistics: dict | None = None

    @property
    def judged(self) -> int:
        """What counts: the larger of RSS and charge."""
        return max(self.rss, self.charge or 0)

    @property
    def seconds(self) -> float:
        """Of the load itself."""
        return self.fill + self.drop


def run(command: list[str], environment: dict[str, str], settle: float) -> Figures:
    """Starts the program with --wait and measures it `settle` seconds after its drop.

    Raises RunError: it ended early, or what the environment preloads is not in it.
    """
    preloaded = Path(environment.get("LD_PRELOAD", "")).name
    own = {name: environment[name] for name in OWN if name in environment}
    shared = {name: value for name, value in environment.items() if name not in OWN}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with MemoryGroup.made("sites") as group, tempfile.TemporaryFile("w+") as errors:
        prefix = group.prefix(own) if group else ["env", *(f"{k}={v}" for k, v in own.items())]
        with subprocess.Popen(
            [*prefix, *command, "--wait"], env=shared, stderr=errors, **pipes
        ) as process:
            try:
                figures = _figures(process, group, settle, preloaded)
            finally:
                process.stdin.close()
                status = process.wait()
        errors.seek(0)
        said = errors.read().splitlines()
    if figures is None or status != 0:
        raise RunError(f"{Path(command[0]).name} ended with {status}; it said: {said[-2:]}")
    figures.said = said
    return figures


def _figures(
    process: subprocess.Popen, group: MemoryGroup | None, settle: float, preloaded: str
) -> Figures | None:
    with _Average(process.pid) as average:
        line = process.stdout.readline()
        if not line:
            return None
        told = json.loads(line)
        if not any(preloaded in path for path in procmem.mapped_files(process.pid)):
            raise RunError(f"{preloaded} is not mapped into the program")
        average.over.wait(settle)
    return Figures(
        live=told["live"],
        rss=procmem.read_memory(process.pid).rss,
        regions=residency.read(process.pid).regions * residency.REGION,
        charge=group.charge() if group else None,
        fill=told["fill"],
        drop=told["drop"],
        average=average.value(),
        cpu=cpu_seconds(process.pid),
    )


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads so far."""
    words = procmem.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class _Average:
    """The mean RSS, read 20 times a second."""

    def __init__(self, pid: int) -> None:
        self.over = threading.Event()
        self._sum = self._count = 0
        self._pid = pid
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> _Average:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self.over.wait(0.05):
            pages = procmem.read_text(f"/proc/{self._pid}/statm", "0 0").split()[1]
            self._sum += int(pages) * residency.PAGE
            self._count += 1

    def value(self) -> int:
        return self._sum // self._count if self._count else 0

# SPDX-License-Identifier: Apache-2.0
"""One run of one program under one allocator, and its memory after the drop.

start in a memory group -> its line of JSON -> settle -> RSS, 2 MiB regions, charge -> end
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from lab.live_watch import LiveWatch
from llamalloc.running import procmem, residency
from llamalloc.running.memory_group import MemoryGroup, entered
from llamalloc.running.memory_watch import MemoryWatch


class RunError(RuntimeError):
    """A program could not run; the message holds its last words."""


@dataclass
class Figures:
    """Of one run. Bytes and seconds; `charge` None: no memory group can be made here.

    After the drop: `live` is what the program holds, `regions` all 2 MiB regions with memory behind
    them. `average` is the mean RSS of the whole run, `cpu` of all threads until the measurement.
    `average_charge`, `peak_charge` and `average_live`, which is 0 on other allocators, are of the
    whole run, too.
    """

    live: int
    rss: int
    held: int  # RSS without the pages of files
    regions: int
    charge: int | None
    fill: float
    drop: float
    average: int = 0
    average_charge: int | None = None
    peak_charge: int | None = None
    average_live: int = 0
    cpu: float = 0.0
    said: list[str] = field(default_factory=list)
    statistics: dict | None = None
    result: str = ""  # what it computed, where it says so; the same in each row

    @property
    def judged(self) -> int:
        """What counts: the larger of RSS without files and charge.

        Neither holds the libraries, which others have, too. The charge, without page cache, leaves
        out shared memory, in which some allocators keep objects."""
        return max(self.held, self.charge or 0)

    @property
    def mean(self) -> int:
        """Over the whole run, what counts: the larger of RSS and charge."""
        return max(self.average, self.average_charge or 0)

    @property
    def mean_over_live(self) -> float:
        """The same divided by what was live on average; 0: not known."""
        return self.mean / self.average_live if self.average_live else 0.0

    @property
    def seconds(self) -> float:
        """Of the load itself."""
        return self.fill + self.drop


def run(command: list[str], environment: dict[str, str], settle: float) -> Figures:
    """Starts the program with --wait and measures it `settle` seconds after its drop.

    Raises RunError: it ended early, or what the environment preloads is not in it.
    """
    preloaded = Path(environment.get("LD_PRELOAD", "")).name
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with MemoryGroup.made("sites") as group, tempfile.TemporaryFile("w+") as errors:
        words, shared = entered(group, [*command, "--wait"], environment)
        with subprocess.Popen(words, env=shared, stderr=errors, **pipes) as process:
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
    with MemoryWatch(process.pid, group) as watch, LiveWatch(lambda: process.pid) as live:
        line = process.stdout.readline()
        if not line:
            return None
        told = json.loads(line)
        if not any(preloaded in path for path in procmem.mapped_files(process.pid)):
            raise RunError(f"{preloaded} is not mapped into the program")
        time.sleep(settle)
    charge = watch.charge()
    return Figures(
        live=told["live"],
        rss=procmem.read_memory(process.pid).rss,
        held=procmem.read_without_files(process.pid),
        regions=residency.read(process.pid).regions * residency.REGION,
        charge=charge.end if charge else None,
        fill=told["fill"],
        drop=told["drop"],
        average=watch.rss().average,
        average_charge=charge.average if charge else None,
        peak_charge=charge.peak if charge else None,
        average_live=live.average(),
        cpu=procmem.cpu_seconds(process.pid),
    )

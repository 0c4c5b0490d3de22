# SPDX-License-Identifier: Apache-2.0
"""What the pages cost the process: CPU time of the thread that serves, and of all threads."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from lab.live.target import Load, get, process_ms, serving_ms


@dataclass(frozen=True)
class Cost:
    """One page. ms of a core for a request: the median over the rounds, and the least; `whole`:
    the median of what all threads took, the worker's own work meanwhile included."""

    page: str
    ms: float
    least: float
    whole: float
    size: int  # bytes of the body


def measure(heap: int, rounds: int, say: Callable[[str], None]) -> tuple[int, list[Cost]]:
    """(huge pages in use, a row a page) of a process with a heap of so many bytes."""
    say(f"the cost of a scrape: a heap of {heap / 1e9:.0f} GB")
    with Load(heap) as load:
        pages = json.loads(get(load.address, "/heap.json"))["pages"]
        one = f"/heap.json?page={pages[len(pages) // 2][0]}"
        times = {"/metrics": 200, "/stats.json": 3, "/heap.json": 3, one: 5, "/debug/pprof/heap": 3}
        rows = []
        for path, count in times.items():
            get(load.address, path)  # names frames, takes memory
            taken = [_round(load, path, count) for _ in range(rounds)]
            serving = [ms for ms, _ in taken]
            whole = statistics.median(ms for _, ms in taken)
            size = len(get(load.address, path))
            name = "/heap.json?page=N" if path == one else path
            rows.append(Cost(name, statistics.median(serving), min(serving), whole, size))
        return len(pages), rows


def _round(load: Load, path: str, count: int) -> tuple[float, float]:
    pid = load.process.pid
    before, whole = serving_ms(pid), process_ms(pid)
    for _ in range(count):
        get(load.address, path)
    return (serving_ms(pid) - before) / count, (process_ms(pid) - whole) / count

# SPDX-License-Identifier: Apache-2.0
"""Which huge pages of a process hold memory: its address space cut into aligned 2 MiB regions.

    /proc/PID/pagemap: 64 bits a page; bit 63: in memory, bit 62: in swap (pagemap.rst)

Only private writable anonymous memory counts, the stacks of threads and the heap included, files
and the main stack not. A region of 512 pages that holds a single one counts as one region: that is
what it costs a system that runs on huge pages.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llamalloc.running.procmem import PROC

PAGE = 4096
REGION = 2 << 20
_ENTRIES = 1 << 16  # pagemap entries read at once
_PRESENT_OR_SWAPPED = np.uint64(3 << 62)


@dataclass(frozen=True)
class Residency:
    """`regions`: 2 MiB regions that hold a page at least; `pages`: 4 KiB pages in memory."""

    regions: int
    pages: int


def anonymous_ranges(maps: str) -> list[tuple[int, int]]:
    """(start, end) of the writable private anonymous mappings in the text of /proc/PID/maps."""
    ranges = []
    for line in maps.splitlines():
        columns = line.split(maxsplit=5)
        name = columns[5] if len(columns) == 6 else ""
        anonymous = not name or name == "[heap]" or name.startswith("[anon")
        if columns[1].startswith("rw") and columns[1].endswith("p") and anonymous:
            start, end = columns[0].split("-")
            ranges.append((int(start, 16), int(end, 16)))
    return ranges


def read(pid: int) -> Residency:
    """Of a live process. Raises OSError when it is gone or not ours."""
    folder = PROC / str(pid)
    numbers = [_resident(folder / "pagemap", *r) for r in anonymous_ranges(_maps(folder))]
    pages = np.concatenate([np.empty(0, np.int64), *numbers])
    return Residency(len(np.unique(pages // (REGION // PAGE))), len(pages))


def _maps(folder: Path) -> str:
    return (folder / "maps").read_text(errors="surrogateescape")


def _resident(pagemap: Path, start: int, end: int) -> np.ndarray:
    """The numbers of the resident pages of one range."""
    found = []
    first, stop = start // PAGE, end // PAGE
    with pagemap.open("rb", buffering=0) as file:
        for at in range(first, stop, _ENTRIES):
            count = min(_ENTRIES, stop - at)
            entries = np.frombuffer(os.pread(file.fileno(), count * 8, at * 8), np.uint64)
            found.append(at + np.nonzero(entries & _PRESENT_OR_SWAPPED)[0])
    return np.concatenate(found)

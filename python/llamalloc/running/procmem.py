# SPDX-License-Identifier: Apache-2.0
"""What the kernel says about a process's memory: /proc/PID/{smaps_rollup,maps}.

All figures are in bytes. RSS counts every resident page of the process, its libraries included;
page tables are not in it. Source: proc(5), Documentation/filesystems/proc.rst.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Memory:
    """Resident bytes of one process at one moment."""

    rss: int
    anonymous: int
    anon_huge_pages: int

    @property
    def coverage(self) -> float:
        """The part of RSS that lies on huge pages, 0..1."""
        return self.anon_huge_pages / self.rss if self.rss else 0.0


_FIELDS = {"Rss": "rss", "Anonymous": "anonymous", "AnonHugePages": "anon_huge_pages"}


def parse_smaps_rollup(text: str) -> Memory:
    """The sums in the text of smaps_rollup; a field that the kernel lacks counts 0."""
    found = dict.fromkeys(_FIELDS.values(), 0)
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in _FIELDS and rest.split()[1:] == ["kB"]:
            found[_FIELDS[name]] = int(rest.split()[0]) * 1024
    return Memory(**found)


def read_memory(pid: int) -> Memory:
    """Memory of a live process. Raises OSError when it is gone or not ours."""
    return parse_smaps_rollup((PROC / str(pid) / "smaps_rollup").read_text())


def read_resident(pid: int) -> tuple[int, int]:
    """(RSS, its peak so far), the kernel's own counters, which cost less than read_memory. 0 of a
    process that has ended and was not waited for. Raises OSError as read_memory."""
    rss, peak = _sizes(pid, ("VmRSS", "VmHWM"))
    return rss, peak


def read_without_files(pid: int) -> int:
    """RSS without the pages of mapped files, such as libraries. Raises OSError as read_memory."""
    return sum(_sizes(pid, ("RssAnon", "RssShmem")))


def _sizes(pid: int, names: tuple[str, ...]) -> list[int]:
    """Rows of /proc/PID/status; 0 for one that it does not have."""
    lines = (PROC / str(pid) / "status").read_text(errors="surrogateescape").splitlines()
    rows = dict(line.split(":", 1) for line in lines if ":" in line)
    return [int(rows.get(name, "0").split()[0]) * 1024 for name in names]


def start_of(pid: int) -> int:
    """When it started, in ticks since the system did; 0 of a process that has ended."""
    fields = stat_fields(pid)
    return int(fields[19]) if _is_one(fields) else 0


def stat_fields(pid: int) -> list[str]:
    """/proc/PID/stat behind the name, which may hold anything: the state first. Empty: no such
    process."""
    return read_text(PROC / str(pid) / "stat").rpartition(")")[2].split()


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far. Raises IndexError: no such process."""
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lives(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    return _is_one(stat_fields(pid))


def _is_one(fields: list[str]) -> bool:
    return bool(fields) and fields[0] not in "ZX"


def mapped_files(pid: int) -> list[str]:
    """Paths of the files mapped into a process, each once, in address order."""
    lines = (PROC / str(pid) / "maps").read_text(errors="surrogateescape").splitlines()
    columns = (line.split(maxsplit=5) for line in lines)
    return list(dict.fromkeys(c[5] for c in columns if len(c) == 6 and c[5].startswith("/")))


def read_text(path: str | Path, default: str = "") -> str:
    """A small file of /proc or /sys, stripped; `default` where the system has none. Names in it may
    be any bytes."""
    try:
        return Path(path).read_text(errors="surrogateescape").strip()
    except OSError:
        return default

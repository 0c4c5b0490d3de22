# SPDX-License-Identifier: Apache-2.0
"""What the kernel charges to a memory control group, which is what somebody pays for.

    charge = usage - page cache      anonymous memory, shared memory, page tables, kernel memory

RSS is not that: the free part of a huge page has left RSS, but it stays charged until the kernel
splits the page (docs/measuring_memory.md). Versions 1 and 2 of control groups: kernel documents
admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from llamalloc.running.procmem import PROC, read_text

ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Version:
    """Names of a group's files, and of rows in its memory.stat."""

    usage: str
    peak: str
    limit: str
    kills: str  # the file with a row oom_kill
    files: str  # page cache with shared memory
    shared: str
    anonymous: str
    huge: str  # the part of anonymous memory on huge pages


V1 = Version(
    usage="memory.usage_in_bytes",
    peak="memory.max_usage_in_bytes",
    limit="memory.limit_in_bytes",
    kills="memory.oom_control",
    files="total_cache",
    shared="total_shmem",
    anonymous="total_rss",
    huge="total_rss_huge",
)
V2 = Version(
    usage="memory.current",
    peak="memory.peak",
    limit="memory.max",
    kills="memory.events",
    files="file",
    shared="shmem",
    anonymous="anon",
    huge="anon_thp",
)


class ChargeError(RuntimeError):
    """The group has gone or cannot be read; one message."""


@dataclass(frozen=True)
class Charge:
    """Of one group at one moment, in bytes. `anonymous` and `huge` are parts of `charge`."""

    charge: int
    page_cache: int
    anonymous: int
    huge: int


@dataclass(frozen=True)
class Group:
    """A control group that exists; only read here."""

    folder: Path
    version: Version

    def read(self) -> Charge:
        """Raises ChargeError: the group has gone, or its files are not what they should be."""
        rows, v = self._rows("memory.stat"), self.version
        cache = max(0, rows.get(v.files, 0) - rows.get(v.shared, 0))
        usage = self._number(v.usage)
        return Charge(max(0, usage - cache), cache, rows.get(v.anonymous, 0), rows.get(v.huge, 0))

    def peak(self) -> int | None:
        """The most that was charged at any time, page cache included; None before Linux 5.19 in
        version 2. Raises ChargeError."""
        return self._number(self.version.peak) if self._has(self.version.peak) else None

    def kills(self) -> int:
        """How many of its processes the kernel has killed for memory. Raises ChargeError."""
        return self._rows(self.version.kills).get("oom_kill", 0)

    def _has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def _text(self, name: str) -> str:
        try:
            return (self.folder / name).read_text()
        except OSError as error:
            raise ChargeError(f"{error.filename}: {error.strerror}") from error

    def _number(self, name: str) -> int:
        text = self._text(name).strip()
        if not text.isdecimal():
            raise ChargeError(f"{self.folder / name}: {text[:40]!r} is no number")
        return int(text)

    def _rows(self, name: str) -> dict[str, int]:
        pairs = (line.split() for line in self._text(name).splitlines())
        return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdecimal()}


def memory_root(root: Path = ROOT) -> tuple[Path, Version] | None:
    """The top of the memory controller's groups; None where the system mounts none."""
    if (root / "memory" / V1.usage).exists():
        return root / "memory", V1
    return (root, V2) if (root / "cgroup.controllers").exists() else None


def of_process(pid: int, root: Path = ROOT, proc: Path = PROC) -> Group | None:
    """The group that a process is in; None where none is to be seen, or it is the whole system's.

    In a container the path may be one outside of it: its own group is then the root that it sees.
    """
    found = memory_root(root)
    if found is None:
        return None
    top, version = found
    path = _path(read_text(proc / str(pid) / "cgroup"), version)
    if path is None or (path == "/" and version is V1):
        return None  # in version 1 the top has files, too: those of the whole system
    own = top / path.lstrip("/")
    folder = own if (own / version.usage).exists() else top
    return Group(folder, version) if (folder / version.usage).exists() else None


def _path(text: str, version: Version) -> str | None:
    """The group in the text of /proc/PID/cgroup: lines `number:controllers:path`."""
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(",") if version is V1 else not controllers:
            return path
    return None

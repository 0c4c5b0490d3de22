# SPDX-License-Identifier: Apache-2.0
"""The rows of the demo: which allocator serves malloc in the same redis-server binary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lab import peers
from lab.allocators import Entry, find

OURS = "libllamalloc.so"


@dataclass(frozen=True)
class Row:
    """One row. `peer` is None for ours, which runs by `llamalloc run`."""

    name: str
    title: str
    colour: str
    peer: Entry | None = None
    shipped: bool = False  # the binary's own allocator: nothing is preloaded
    learned: bool = False  # with a model, of recorded runs
    learns: int = 0  # by itself, in its first run or, with what those before kept, a later one

    @property
    def ours(self) -> bool:
        return self.peer is None

    @property
    def mapped(self) -> str:
        """A part of the file name of the library that must be in the process."""
        if self.peer is None:
            return OURS
        return peers.find(self.peer.peer).library.name if self.built else self.peer.soname

    @property
    def built(self) -> bool:
        """Whether Debian has no such package: lab.peers builds it from sources."""
        return bool(self.peer and self.peer.peer)

    @property
    def preload(self) -> str:
        """A soname, or the name of a built peer, or nothing. Not the name of glibc: redis-server
        is linked to jemalloc."""
        if self.peer is None or self.shipped:
            return ""
        return self.peer.name if self.built else self.peer.soname

    def available(self) -> bool:
        """Whether the library is there (ours is checked by `llamalloc run`)."""
        if self.peer is None or self.shipped:
            return True
        if self.built:
            return peers.find(self.peer.peer).library.is_file()
        return self.peer.is_installed()


def _peer(name: str, colour: str) -> Row:
    entry = find(name)
    assert entry is not None, name
    return Row(name, entry.title, colour, entry)


ROWS = (
    Row("jemalloc", "jemalloc (as shipped)", "#7a6fb0", find("jemalloc"), shipped=True),
    _peer("glibc", "#8a8a8a"),
    _peer("gperftools", "#c98b2b"),
    _peer("mimalloc", "#4f9d8f"),
    _peer("tcmalloc", "#3c6fa8"),
    _peer("mimalloc-3", "#86c5b9"),
    Row("plain", "llamalloc, without learning", "#e58a86"),
    Row("learns-1", "llamalloc, learns by itself, first run", "#7fa650", learns=1),
    Row("learns-2", "llamalloc, learns by itself, second run", "#2f6b1d", learns=2),
    Row("learns-3", "llamalloc, learns by itself, third run", "#12350b", learns=3),
    Row("learned", "llamalloc, with a model", "#c0272d", learned=True),
)
SOAKED = ROWS[-1]
# Debian 12 packages that the rows and the workload need; `make demo` installs them.
PACKAGES = (
    "redis-server",
    "redis-tools",
    *(row.peer.package for row in ROWS if row.peer and row.peer.package and row.name != "glibc"),
)


def chosen(names: list[str]) -> list[Row]:
    """Rows by name, in table order; all for an empty list. Raises ValueError for an unknown one."""
    known = [row.name for row in ROWS]
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"no allocator named {', '.join(unknown)}; there are {', '.join(known)}")
    return [row for row in ROWS if not names or row.name in names]


def present(rows: list[Row], build: bool, say: Callable[[str], None]) -> list[Row]:
    """Without the peers that Debian does not package and that are not built; a line for each.
    `build`: they are built first, which needs cargo, a network and some minutes."""
    wanted = {row.peer.peer for row in rows if row.built}
    failed = peers.ensure(wanted, say) if build and wanted else {}
    for row in rows:
        if row.built and not row.available():
            reason = failed.get(row.peer.peer, "it is not built; --peers all builds it")
            say(f"{row.title} is left out: {reason}")
    return [row for row in rows if not row.built or row.available()]

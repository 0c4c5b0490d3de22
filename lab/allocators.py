# SPDX-License-Identifier: Apache-2.0
"""The catalogue of allocators (running/allocators.py) with those that the lab builds, and what is
preloaded."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from lab.peers import find as find_peer
from llamalloc.running.allocators import DEBIAN, OURS, Entry, package_version

_SYSTEM = Path("/usr/lib/x86_64-linux-gnu")

CATALOGUE = (
    *DEBIAN,
    Entry("jemalloc-5.3.1", "jemalloc 5.3.1", peer="jemalloc"),
    Entry("mimalloc-3", "mimalloc 3", peer="mimalloc3"),
    Entry("snmalloc", "snmalloc", peer="snmalloc"),
    # Its per-CPU caches work only where glibc leaves it restartable sequences.
    Entry("tcmalloc", "tcmalloc (Google)", peer="tcmalloc", tunables="glibc.pthread.rseq=0"),
)
BUILT = {entry.name: entry.peer for entry in CATALOGUE if entry.peer}
NAMES = (OURS, *(entry.name for entry in CATALOGUE))


@dataclass(frozen=True)
class Allocator:
    """What can be preloaded here. `preload` is a path or a soname; the rest is for the reader."""

    name: str
    preload: str
    version: str
    form: str
    tunables: str = ""

    def environment(self) -> dict[str, str]:
        """This process's environment with the allocator preloaded."""
        tunables = {"GLIBC_TUNABLES": self.tunables} if self.tunables else {}
        return os.environ | {"LD_PRELOAD": self.preload} | tunables

    @property
    def ours(self) -> bool:
        return self.name == OURS


def find(name: str) -> Entry | None:
    """The entry of a name or of a short name."""
    return next((e for e in CATALOGUE if name in (e.name, e.short)), None)


def short_names() -> tuple[str, ...]:
    """What to type for the peers from Debian."""
    return tuple(entry.typed for entry in DEBIAN)


def debian_libraries() -> dict[str, Path | None]:
    """File of each peer from Debian by its short name; None for glibc, which needs no preload."""
    return {
        name: None if entry.name == "glibc" else _SYSTEM / entry.soname
        for name, entry in zip(short_names(), DEBIAN, strict=True)
    }


def chosen(names: list[str]) -> list[str]:
    """Names in table order; all for an empty list. Raises ValueError for an unknown one."""
    full = {name: entry.name for name in names if (entry := find(name))} | {OURS: OURS}
    if unknown := sorted(set(names) - set(full)):
        raise ValueError(f"no allocator {', '.join(unknown)}; there are {', '.join(NAMES)}")
    wanted = {full[name] for name in names}
    return [name for name in NAMES if not names or name in wanted]


def present(
    names: list[str], library: Path, failed: dict[str, str]
) -> tuple[list[Allocator], list[str]]:
    """What of `names` can run, and a line for each that cannot. `failed` is from peers.ensure.

    Raises ValueError if our own library is asked for and missing: nothing would be compared.
    """
    found, missing = [], []
    for name in names:
        one = _ours(library) if name == OURS else _peer(name, failed)
        if isinstance(one, Allocator):
            found.append(one)
        else:
            missing.append(f"{name} is left out: {one}")
    return found, missing


def _ours(library: Path) -> Allocator:
    if not library.is_file():
        raise ValueError(f"{library} is not there; `make build` builds ours, --lib names another")
    return Allocator(OURS, str(library.resolve()), "this tree", "its own shared library")


def _peer(name: str, failed: dict[str, str]) -> Allocator | str:
    entry = find(name)
    assert entry is not None, name
    return _built(entry, failed) if entry.peer else _debian(entry)


def _debian(entry: Entry) -> Allocator | str:
    if not entry.is_installed():
        return f"Debian's {entry.package} is not installed; scripts/setup.sh packages bench"
    return Allocator(entry.name, entry.soname, package_version(entry.package), "Debian's library")


def _built(entry: Entry, failed: dict[str, str]) -> Allocator | str:
    peer = find_peer(entry.peer)
    if peer.name in failed:
        return failed[peer.name]
    if not peer.library.exists() or not peer.note.exists():
        return "it was not built"
    note = json.loads(peer.note.read_text())
    return Allocator(entry.name, str(peer.library), note["version"], note["form"], entry.tunables)

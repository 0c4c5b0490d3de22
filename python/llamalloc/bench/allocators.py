# SPDX-License-Identifier: Apache-2.0
"""The columns of the benchmark: what is preloaded, and where it comes from."""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from llamalloc.bench.peers import PEERS

OURS = "llamalloc"


@dataclass(frozen=True)
class Allocator:
    """One column. `preload` is a path or a soname; `version` and `form` are for the reader."""

    name: str
    preload: str
    version: str
    form: str
    tunables: str = ""  # of glibc, for this one alone

    def environment(self) -> dict[str, str]:
        """This process's environment with the allocator preloaded."""
        tunables = {"GLIBC_TUNABLES": self.tunables} if self.tunables else {}
        return os.environ | {"LD_PRELOAD": self.preload} | tunables

    @property
    def ours(self) -> bool:
        return self.name == OURS


@dataclass(frozen=True)
class Debian:
    """A peer from Debian: its soname and the package that brings it."""

    name: str
    soname: str
    package: str


DEBIAN = (
    Debian("glibc", "libc.so.6", "libc6"),
    Debian("jemalloc-5.3.0", "libjemalloc.so.2", "libjemalloc2"),
    Debian("mimalloc-2.0", "libmimalloc.so.2", "libmimalloc2.0"),
    Debian("gperftools", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
)
# Built from crates; the name of the peer in peers.py by the name of the column.
BUILT = {"jemalloc-5.3.1": "jemalloc", "mimalloc-3": "mimalloc3"} | {
    name: name for name in ("snmalloc", "tcmalloc")
}
# Google's tcmalloc keeps its per-CPU caches only where glibc leaves it restartable sequences.
TUNABLES = {"tcmalloc": "glibc.pthread.rseq=0"}
NAMES = (OURS, *(peer.name for peer in DEBIAN), *BUILT)


def chosen(names: list[str]) -> list[str]:
    """Names in table order; all for an empty list. Raises ValueError for an unknown one."""
    if unknown := sorted(set(names) - set(NAMES)):
        raise ValueError(f"no allocator {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return [name for name in NAMES if not names or name in names]


def present(
    names: list[str], library: Path, failed: dict[str, str]
) -> tuple[list[Allocator], list[str]]:
    """What of `names` can run, and a line for each that cannot. `failed` is from peers.ensure.

    Raises ValueError if our own library is asked for and missing: nothing would be compared.
    """
    found, missing = [], []
    for name in names:
        one = _ours(library) if name == OURS else _debian(name) or _built(name, failed)
        if isinstance(one, Allocator):
            found.append(one)
        else:
            missing.append(f"{name} is left out: {one}")
    return found, missing


def _ours(library: Path) -> Allocator:
    if not library.is_file():
        raise ValueError(f"{library} is not there; `make build` builds ours, --lib names another")
    return Allocator(OURS, str(library.resolve()), "this tree", "its own shared library")


def _debian(name: str) -> Allocator | str | None:
    for peer in DEBIAN:
        if peer.name == name:
            stem = peer.soname.removeprefix("lib").partition(".so")[0]
            if ctypes.util.find_library(stem) is None:
                return f"Debian's {peer.package} is not installed; scripts/setup.sh packages bench"
            return Allocator(name, peer.soname, package_version(peer.package), "Debian's library")
    return None


def _built(name: str, failed: dict[str, str]) -> Allocator | str:
    peer = next(peer for peer in PEERS if peer.name == BUILT[name])
    if peer.name in failed:
        return failed[peer.name]
    if not peer.library.exists() or not peer.note.exists():
        return "it was not built"
    note = json.loads(peer.note.read_text())
    tunables = TUNABLES.get(name, "")
    return Allocator(name, str(peer.library), note["version"], note["form"], tunables)


def package_version(package: str) -> str:
    """The version that dpkg knows, or "?" elsewhere."""
    if shutil.which("dpkg-query") is None:
        return "?"
    command = ["dpkg-query", "-W", "-f=${Version}", package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout or "?"

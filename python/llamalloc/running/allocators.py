# SPDX-License-Identifier: Apache-2.0
"""The catalogue of allocators: what is compared with ours, where it comes from, what is preloaded.

The lab adds those that it builds from sources.
"""

from __future__ import annotations

import ctypes.util
import shutil
import subprocess
from dataclasses import dataclass

OURS = "llamalloc"


@dataclass(frozen=True)
class Entry:
    """One peer. It comes from a Debian `package`, or from sources (`peer` of lab/peers.py).

    `name` stands in tables and results; `short` is what a person may type instead.
    """

    name: str
    title: str
    short: str = ""
    soname: str = ""
    package: str = ""
    peer: str = ""
    tunables: str = ""  # of glibc, for this one alone

    def is_installed(self) -> bool:
        """Whether the loader finds the library of the Debian package."""
        stem = self.soname.removeprefix("lib").partition(".so")[0]
        return bool(self.soname) and ctypes.util.find_library(stem) is not None

    @property
    def typed(self) -> str:
        return self.short or self.name


DEBIAN = (
    Entry("glibc", "glibc", soname="libc.so.6", package="libc6"),
    Entry("jemalloc-5.3.0", "jemalloc", "jemalloc", "libjemalloc.so.2", "libjemalloc2"),
    Entry("mimalloc-2.0", "mimalloc", "mimalloc", "libmimalloc.so.2", "libmimalloc2.0"),
    Entry(
        "gperftools",
        "tcmalloc (gperftools)",
        soname="libtcmalloc_minimal.so.4",
        package="libtcmalloc-minimal4",
    ),
)


def package_version(package: str) -> str:
    """The version that dpkg knows, or "?" elsewhere."""
    if shutil.which("dpkg-query") is None:
        return "?"
    command = ["dpkg-query", "-W", "-f=${Version}", package]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout or "?"

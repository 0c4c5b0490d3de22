# SPDX-License-Identifier: Apache-2.0
"""The rows of the demo: which allocator serves malloc in the same redis-server binary."""

from __future__ import annotations

import ctypes.util
from dataclasses import dataclass

# Debian 12 packages that the rows and the workload need; `make demo` installs them.
PACKAGES = (
    "redis-server",
    "redis-tools",
    "libjemalloc2",
    "libtcmalloc-minimal4",
    "libmimalloc2.0",
)


@dataclass(frozen=True)
class Allocator:
    """One row. `preload` is a soname, empty for the binary's own; `ours` runs `llamalloc run`."""

    name: str
    title: str
    preload: str
    mapped: str
    colour: str
    ours: bool = False
    learned: bool = False

    def available(self) -> bool:
        """Whether the loader finds the library (ours is checked by `llamalloc run`)."""
        stem = self.preload.removeprefix("lib").partition(".so")[0]
        return not self.preload or ctypes.util.find_library(stem) is not None


ROWS = (
    Allocator("jemalloc", "jemalloc (as shipped)", "", "libjemalloc.so", "#7a6fb0"),
    Allocator("glibc", "glibc", "libc.so.6", "libc.so.6", "#8a8a8a"),
    Allocator(
        "tcmalloc", "tcmalloc (gperftools)", "libtcmalloc_minimal.so.4", "libtcmalloc", "#c98b2b"
    ),
    Allocator("mimalloc", "mimalloc", "libmimalloc.so.2", "libmimalloc", "#4f9d8f"),
    Allocator("plain", "llamalloc, no model", "", "libllamalloc.so", "#e58a86", ours=True),
    Allocator("learned", "llamalloc, learned", "", "libllamalloc.so", "#c0272d", True, True),
)


def chosen(names: list[str]) -> list[Allocator]:
    """Rows by name, in table order; all for an empty list. Raises ValueError for an unknown one."""
    known = [row.name for row in ROWS]
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"no allocator named {', '.join(unknown)}; there are {', '.join(known)}")
    return [row for row in ROWS if not names or row.name in names]

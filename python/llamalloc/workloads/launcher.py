# SPDX-License-Identifier: Apache-2.0
"""Who serves malloc in a workload's program: words before its command, and its environment."""

from __future__ import annotations

import ctypes.util
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from llamalloc.workloads.recipe import WorkloadError

LLAMALLOC = [sys.executable, "-m", "llamalloc.cli"]

# Short names of --preload; an empty library is glibc's own malloc.
PEERS = {
    "glibc": "",
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "mimalloc": "libmimalloc.so.2",
}


def clean_environment() -> dict[str, str]:
    """Ours, without an allocator."""
    return {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LLAMALLOC_CONF")}


def with_preload(environment: Mapping[str, str], library: str) -> dict[str, str]:
    """`environment` with a peer's short name or a library's path or soname preloaded.

    Raises WorkloadError where there is no such library, for the loader would go on without it.
    """
    library = PEERS.get(library, library)
    if not library:
        return dict(environment)
    stem = library.removeprefix("lib").partition(".so")[0]
    if "/" in library:
        if not Path(library).is_file():
            raise WorkloadError(f"--preload {library}: no such file")
        library = str(Path(library).absolute())
    elif ctypes.util.find_library(stem) is None:
        raise WorkloadError(f"--preload {library}: not installed; scripts/setup.sh packages demo")
    return {**environment, "LD_PRELOAD": library}


def under(words: str) -> list[str]:
    """The words of --under as a command's beginning; `llamalloc` is this very package."""
    prefix = shlex.split(words)
    if prefix and prefix[0] == "llamalloc":
        prefix = [*LLAMALLOC, *prefix[1:]]
        if prefix[-1] != "--":
            prefix.append("--")
    return prefix

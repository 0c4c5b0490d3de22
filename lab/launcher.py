# SPDX-License-Identifier: Apache-2.0
"""Who serves malloc in a program that is started: words before its command, and its environment."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from lab import allocators, peers

LLAMALLOC = [sys.executable, "-m", "llamalloc.cli"]


class LauncherError(RuntimeError):
    """The library to preload is not there; one message with cause and cure."""


def clean_environment() -> dict[str, str]:
    """Ours, without an allocator."""
    return {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LLAMALLOC_CONF")}


def with_preload(environment: Mapping[str, str], library: str) -> dict[str, str]:
    """`environment` with a library preloaded: a name of the catalogue, a path or a soname.

    Raises LauncherError where there is no such library, for the loader would go on without it.
    """
    entry = allocators.find(library)
    if not library or (entry and entry.name == "glibc"):
        return dict(environment)
    if "/" in library:
        if not Path(library).is_file():
            raise LauncherError(f"--preload {library}: no such file")
        return {**environment, "LD_PRELOAD": str(Path(library).absolute())}
    if entry and entry.peer:
        return {**environment, **_built_peer(entry)}
    entry = entry or allocators.Entry(library, library, soname=library)
    if not entry.is_installed():
        raise LauncherError(
            f"--preload {entry.soname}: not installed; scripts/setup.sh packages demo"
        )
    return {**environment, "LD_PRELOAD": entry.soname}


def _built_peer(entry: allocators.Entry) -> dict[str, str]:
    """With what the peer needs of glibc."""
    library = peers.find(entry.peer).library
    if not library.is_file():
        raise LauncherError(
            f"--preload {entry.name}: Debian has none; give the path of its library"
        )
    tunables = {"GLIBC_TUNABLES": entry.tunables} if entry.tunables else {}
    return {"LD_PRELOAD": str(library), **tunables}


def under(words: str) -> list[str]:
    """The words of --under as a command's beginning; `llamalloc` is this very package."""
    prefix = shlex.split(words)
    if prefix and prefix[0] == "llamalloc":
        prefix = [*LLAMALLOC, *prefix[1:]]
        if prefix[-1] != "--":
            prefix.append("--")
    return prefix

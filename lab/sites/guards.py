# SPDX-License-Identifier: Apache-2.0
"""Loads that learning must not make worse: the lives of each site's objects do not separate.

Random eviction in C++; a cache in Python, and one in Ruby with threads, where the interpreter
allocates for all and stacks say little.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.sites import build
from lab.sites.build import SOURCES, LackError
from lab.sites.ways import VARIANTS, WAYS


@dataclass(frozen=True)
class Guard:
    """A load and the part of --peak that it takes; `command` is its program and first words."""

    name: str
    command: Callable[[], list[str]]
    share: float
    environment: dict[str, str] = field(default_factory=dict)

    def words(self, peak: int) -> list[str]:
        """The command for --peak MiB. Raises LackError or BuildError."""
        return [*self.command(), "--peak", str(max(1, round(peak * self.share)))]


def _eviction() -> list[str]:
    two_functions = next(way for way in WAYS if way.name == "two_functions")
    return [str(build.built(two_functions, VARIANTS[0])), "--evict"]


def _python() -> list[str]:
    return [sys.executable, str(SOURCES / "cache.py")]


def _ruby() -> list[str]:
    return [_installed("ruby"), str(SOURCES / "cache.rb")]


def _installed(name: str) -> str:
    if found := shutil.which(name):
        return found
    raise LackError(f"{name} is not installed; install: apt-get install {name}")


GUARDS = (
    Guard("random eviction", _eviction, 0.25),
    Guard("Python cache", _python, 0.125, {"PYTHONMALLOC": "malloc"}),
    Guard("Ruby cache, threads", _ruby, 0.125),
)

# SPDX-License-Identifier: Apache-2.0
"""Which builds are recorded, and what is learned for which test.

The further down a row of RELATIONS, the less of a frame is the same in both builds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.versions.builds import CLANG_O2, GCC_LTO, GCC_O2, Build
from lab.versions.recording import Run

OTHER_RUN = "same build, other run"
STRIPPED = "same build, stripped"
REBUILT = "same version, other compiler"
VERSION = "other version, same compiler"
BOTH = "other version and compiler"
OTHER_RUNS = "same build, all other runs"
OTHER_BUILDS = "all other builds"
RELATIONS = (OTHER_RUN, OTHER_RUNS, STRIPPED, REBUILT, VERSION, BOTH, OTHER_BUILDS)

_MIDDLE = {"redis": "bookworm", "rocksdb": "bookworm"}
_RELEASES = {"redis": ("bullseye", "bookworm", "trixie"), "rocksdb": ("bullseye", "bookworm")}
_COMPILERS = {"redis": (GCC_O2, CLANG_O2, GCC_LTO), "rocksdb": (GCC_O2, CLANG_O2)}


@dataclass(frozen=True)
class Case:
    """Learned from `learn`, tested on `test`."""

    learn: tuple[Run, ...]
    test: Run

    @property
    def program(self) -> str:
        """The program of all of its runs."""
        return self.test.build.program

    @property
    def is_another_build(self) -> bool:
        """Whether the code under test was not learned from."""
        return self.relation in (REBUILT, VERSION, BOTH, OTHER_BUILDS)

    @property
    def relation(self) -> str:
        """How the builds learned differ from the build under test."""
        builds = [run.build for run in self.learn]
        if len(builds) == 1:
            return _relation(builds[0], self.test.build)
        return OTHER_RUNS if _is_twin(builds[0], self.test.build) else OTHER_BUILDS


def runs(program: str) -> list[Run]:
    """All recordings, the most telling first, so that an interrupted call has those."""
    middle, gcc = _MIDDLE[program], GCC_O2
    builds = [Build(program, release, gcc) for release in _releases(program)]
    builds += [Build(program, middle, one) for one in _COMPILERS[program][1:]]
    builds += [Build(program, release, gcc, True) for release in _releases(program)]
    others = [release for release in _releases(program) if release != middle]
    builds += [Build(program, release, c) for c in _COMPILERS[program][1:] for release in others]
    again = [Run(build, 2) for build in builds[:2]]
    return [Run(builds[0]), again[0], *[Run(build) for build in builds[1:]], again[1]]


def cases(recorded: list[Run]) -> list[Case]:
    """Pairs of recordings of one program; then each by all others of its build, or of others."""
    pairs = [Case((one,), other) for one in recorded for other in recorded if _is_pair(one, other)]
    return [*pairs, *(case for test in recorded for case in _by_many(test, recorded))]


def _by_many(test: Run, recorded: list[Run]) -> Iterator[Case]:
    builds = [run for run in recorded if run.build.program == test.build.program and run != test]
    same = [run for run in builds if _is_twin(run.build, test.build)]
    others = [run for run in builds if not _is_twin(run.build, test.build)]
    others = [run for run in others if run.build.stripped == test.build.stripped]
    for learn in (same, others):
        if len(learn) > 1:
            yield Case(tuple(learn), test)


def _is_pair(one: Run, other: Run) -> bool:
    a, b = one.build, other.build
    if a.program != b.program or one == other:
        return False
    if a == b:
        return True
    if one.number != 1 or other.number != 1:
        return False
    return a.stripped == b.stripped or _is_twin(a, b)


def _is_twin(a: Build, b: Build) -> bool:
    """Whether both hold the same code."""
    return (a.program, a.release, a.compiler) == (b.program, b.release, b.compiler)


def _releases(program: str) -> list[str]:
    """The middle one first."""
    middle = _MIDDLE[program]
    return [middle, *[name for name in _RELEASES[program] if name != middle]]


def _relation(a: Build, b: Build) -> str:
    if a == b:
        return OTHER_RUN
    if _is_twin(a, b):
        return STRIPPED
    if a.release == b.release:
        return REBUILT
    return VERSION if a.compiler == b.compiler else BOTH

# SPDX-License-Identifier: Apache-2.0
"""Which loads are run: each way, compiled and filled as asked for, and the guards."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lab.sites import build
from lab.sites.guards import GUARDS, Guard
from lab.sites.results import Case, Results
from lab.sites.rows import SECOND
from lab.sites.ways import VARIANTS, WAYS, Variant, Way, chosen

T = TypeVar("T")


@dataclass
class Step:
    """A case, the command that runs it, and what its environment adds. `program_of_second`: of
    second runs, where that is another one."""

    case: Case
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    program_of_second: str = ""

    def command_of(self, row: str) -> list[str]:
        """Of a row."""
        other = self.program_of_second if row == SECOND else ""
        return [other or self.command[0], *self.command[1:]]


def steps(options: argparse.Namespace, results: Results) -> list[Step]:
    """Compiles and checks what was asked for. A case for each step is in `results` then, and a line
    for what this system lacks. Raises ValueError or BuildError."""
    return [*_ways(options, results), *_guards(options, results)]


def _ways(options: argparse.Namespace, results: Results) -> Iterator[Step]:
    load = ["--peak", str(options.peak), "--survivors", str(options.survivors)]
    load += [
        "--waves",
        str(options.waves),
        *(["--warm", str(options.warm)] if options.warm else []),
    ]
    paces = {"full": [], "paced": ["--pace", str(options.pace)]}
    fills = list(paces) if options.fill == "both" else [options.fill]
    for program, way, variant in _programs(options, results):
        second = str(build.built(way, variant, True)) if options.next_build else ""
        for fill in fills:
            results.cases.append(Case(way.name, variant.name, fill))
            yield Step(
                results.cases[-1],
                [str(program), *load, *paces[fill]],
                program_of_second=second,
            )


def _programs(options: argparse.Namespace, results: Results) -> Iterator[tuple[Path, Way, Variant]]:
    ways = [] if options.ways == "none" else chosen(options.ways, WAYS)
    for variant in chosen(options.variants, VARIANTS):
        for way in ways:
            if program := _if_possible(results, build.built, way, variant):
                yield program, way, variant


def _guards(options: argparse.Namespace, results: Results) -> Iterator[Step]:
    for guard in GUARDS if options.guards == "all" else ():
        if command := _if_possible(results, Guard.words, guard, options.peak):
            results.guarded.append(Case(guard.name))
            yield Step(results.guarded[-1], command, guard.environment)


def _if_possible(results: Results, make: Callable[..., T], *what: object) -> T | None:
    """What `make` returns; None and a line in `results` where the system lacks something."""
    try:
        return make(*what)
    except build.LackError as error:
        if str(error) not in results.missing:
            results.missing.append(str(error))
        return None

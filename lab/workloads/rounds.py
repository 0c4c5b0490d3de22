# SPDX-License-Identifier: Apache-2.0
"""Runs load programs on allocators, round by round, each run in a control group of its own."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from lab.allocators import Allocator
from lab.workloads import compared
from lab.workloads.compared import How, Measured
from lab.workloads.compared_table import Row
from lab.workloads.recipe import built
from llamalloc.running.memory_group import MemoryGroup


@dataclass(frozen=True)
class Load:
    """A program of workloads/charge with arguments. `limit`: how many times `live` it may use in
    runs of its own, 0 for no such runs."""

    name: str
    program: str
    arguments: tuple[str, ...]
    limit: float = 0.0
    settle: float = 0.0

    def command(self) -> list[str]:
        return [str(built(self.program)), *self.arguments]


class Rounds:
    """`grouped`: whether every run had a group; without one there is no limit either."""

    def __init__(self, options: argparse.Namespace, name: str) -> None:
        self._options, self._name = options, name
        self.allocators = compared.present(options, self.say)
        self.grouped = True

    def say(self, text: str) -> None:
        print(f"{self._name}: {text}", file=sys.stderr, flush=True)

    def run(self, loads: list[Load]) -> dict[str, list[Row]]:
        """Rows by the name of a load. Raises WorkloadError."""
        commands = {load.name: load.command() for load in loads}
        found = {load.name: [Row(a.name) for a in self.allocators] for load in loads}
        for turn in range(1, self._options.runs + 1):
            for load in loads:
                self.say(f"run {turn} of {self._options.runs}: {load.name}")
                for allocator, row in zip(self.allocators, found[load.name], strict=True):
                    self._both(load, commands[load.name], allocator, row)
        return found

    def _both(self, load: Load, command: list[str], allocator: Allocator, row: Row) -> None:
        run = self._one(command, allocator, How(settle=load.settle))
        row.runs.append(run)
        if load.limit and self.grouped:
            limit = round(load.limit * run.said["live"])
            row.limited.append(self._one(command, allocator, How(limit, load.settle)))

    def _one(self, command: list[str], allocator: Allocator, how: How) -> Measured:
        variables = compared.environment(allocator, self._options.conf)
        with MemoryGroup.made(self._name) as group:
            self.grouped = self.grouped and group is not None
            return compared.measured(command, variables, group, how)

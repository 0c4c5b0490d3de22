# SPDX-License-Identifier: Apache-2.0
"""How far a measurement is: a bar on stderr, or a line a step where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import Progress, TaskID


@dataclass(frozen=True)
class Steps:
    """What a command of that name does at present, and how much of it is done."""

    command: str
    bar: Progress
    task: TaskID

    def now(self, text: str) -> None:
        self.bar.update(self.task, description=text)
        if not self.bar.console.is_terminal:
            print(f"{self.command}: {text}", file=sys.stderr, flush=True)

    def advance(self) -> None:
        self.bar.advance(self.task)


@contextmanager
def steps(command: str, total: int) -> Iterator[Steps]:
    """Shows `total` steps while the block runs."""
    with Progress(console=Console(stderr=True)) as bar:
        yield Steps(command, bar, bar.add_task("", total=total))

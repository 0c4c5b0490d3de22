# SPDX-License-Identifier: Apache-2.0
"""What a suite is: somebody else's tests, where they come from, and how their results are read.

    packages, prepare(folder)  ->  commands(folder)  ->  output  ->  {test: outcome}

Invariant: a suite holds no test. It says where a package or a source tree has them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
Outcomes = dict[str, str]  # test name -> one of the three


class SuiteError(Exception):
    """A suite cannot be run; the message names cause and cure."""


@dataclass(frozen=True)
class Output:
    """What a command left: `status` is negative for a signal, None when it was stopped in time."""

    status: int | None
    text: str  # stdout and stderr as one
    folder: Path  # where it ran, and what {folder} stands for

    @property
    def outcome(self) -> str:
        """For a command that is itself one test, by the exit status alone; 77 is skipped."""
        return {0: PASSED, 77: SKIPPED}.get(self.status, FAILED)


@dataclass(frozen=True)
class Command:
    """A command of a suite. Without `parse` it is one test, called `name`.

    `words` and `environment` may hold {folder}, the folder of this run: empty, and of its own.
    """

    name: str
    words: Sequence[str | Path]
    parse: Callable[[Output], Outcomes] | None = None
    cwd: Path | None = None  # None: the folder of this run
    seconds: float = 600
    environment: Mapping[str, str] = field(default_factory=dict)

    def outcomes(self, output: Output) -> Outcomes:
        """Outcomes by test name. A command that failed without a failed test is one itself."""
        if self.parse is None:
            return {self.name: output.outcome}
        found = self.parse(output)
        if output.status != 0 and FAILED not in found.values():
            found[f"{self.name}: {ending(output.status)}"] = FAILED
        return found


def ending(status: int | None) -> str:
    """How a command ended, as words that compare equal between runs."""
    if status is None:
        return "stopped by the time limit"
    return f"signal {-status}" if status < 0 else f"exit {status}"


@dataclass(frozen=True)
class Difference:
    """Tests that may fail under llamalloc and not under glibc, and why that is right.

    `tests`: names, or patterns of fnmatch. `conf`: a part of the options, if only under those.
    """

    tests: Sequence[str]
    reason: str
    conf: str = ""


@dataclass(frozen=True)
class Suite:
    """`prepare` makes what `commands` names, in a folder that stays; a second call does nothing."""

    what: str  # what runs, for the table
    version: Callable[[], str]
    commands: Callable[[Path], Sequence[Command]]
    packages: Sequence[str] = ()  # Debian packages
    prepare: Callable[[Path], None] = lambda folder: None
    probes: Sequence[Sequence[str]] = ()  # commands that start and end the programs under test
    differences: Sequence[Difference] = ()
    parallel: int = 1  # commands at the same time

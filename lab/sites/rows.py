# SPDX-License-Identifier: Apache-2.0
"""Under what a program runs: blind, learning in its first or a later process, or on a peer.

By a model: the first process writes a profile, a model is trained of it, and later ones place by
that model.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from lab.allocators import short_names
from lab.launcher import LLAMALLOC, clean_environment, with_preload
from lab.sites import process
from lab.sites.process import Figures, RunError
from llamalloc.formats import contracts

BLIND = "blind"
# Each begins with the state that the one before it kept.
LEARNED = ("first", "second", "third", "fourth", "fifth", "sixth")
FIRST, SECOND = LEARNED[:2]
OURS = (BLIND, FIRST, SECOND)
_FILES = ("run.model", "run.pb.gz")


def can_learn() -> bool:
    """Whether this tree's library has the option `learn`."""
    return any(option.name == "learn" for option in contracts.options())


def chosen(peers: str) -> list[str]:
    """Ours that this library can do, and the peers named by comma. Raises ValueError."""
    names = [name for name in peers.split(",") if name]
    names = list(short_names()) if names == ["all"] else names
    if unknown := sorted(set(names) - set(short_names())):
        raise ValueError(f"no peer {', '.join(unknown)}; there are {', '.join(short_names())}")
    return [*(OURS if can_learn() else (BLIND,)), *names]


@dataclass(frozen=True)
class Runner:
    """Runs one program under row after row, in `folder`: each run that learns from the state of the
    one before.

    `conf`: further options of the rows that learn. `by_model`: by a model, without `learn`.
    """

    library: Path
    conf: str
    settle: float
    folder: Path
    by_model: bool = False

    def run(self, row: str, command: list[str], environment: dict[str, str]) -> Figures:
        """Raises RunError, or LauncherError where the row's library is missing."""
        plain = clean_environment() | environment
        if row not in (BLIND, *LEARNED):
            return process.run(command, with_preload(plain, row), self.settle)
        conf, file = self.configuration(row)
        ours = with_preload(plain, str(self.library)) | {"LLAMALLOC_CONF": conf}
        found = process.run(command, ours, self.settle)
        if self.by_model and row == FIRST:
            self._train(self.folder / row)
        return replace(found, statistics=_statistics(file))

    def configuration(self, row: str) -> tuple[str, Path]:
        """The library's options for one run, whose state is then there, and where its statistics
        will be."""
        self._make_state(row)
        statistics = self.folder / f"{row}.json"
        learning = [] if row == BLIND else [self._learning(row), self.conf]
        return ",".join(filter(None, (*learning, f"stats:{statistics}"))), statistics

    def _learning(self, row: str) -> str:
        if not self.by_model:
            return f"learn:{self.folder / row}"
        return (
            f"{'profile' if row == FIRST else 'model'}:{self.folder / row / _FILES[row == FIRST]}"
        )

    @staticmethod
    def _train(folder: Path) -> None:
        model, profile = (str(folder / name) for name in _FILES)
        done = subprocess.run(
            [*LLAMALLOC, "train", "-o", model, profile], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RunError(f"no model was trained: {done.stderr[-200:].strip()}")

    def _make_state(self, row: str) -> None:
        """An empty one, or a copy of what the run before left."""
        state = self.folder / row
        shutil.rmtree(state, ignore_errors=True)
        if row in LEARNED[1:]:
            shutil.copytree(self.folder / LEARNED[LEARNED.index(row) - 1], state)
        else:
            state.mkdir()


def _statistics(file: Path) -> dict:
    """What the library wrote at its exit. Raises RunError: it was not loaded."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"the library wrote no statistics: {error}") from error

# SPDX-License-Identifier: Apache-2.0
"""Learns from the runs of each case, asks every predictor about the run under test, and scores it.

Scored twice: on all contexts, and on those that neither table knows, where only the prior and the
network answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from lab.versions import evidence
from lab.versions.cases import Case
from lab.versions.predictors import SILENT, Chains, Nearest, Network, Predictor, Tables, first
from lab.versions.recording import Run
from lab.versions.scores import Scored, scored
from lab.versions.students import STUDENTS, Trained
from llamalloc.learning.dataset import Dataset

EXACT, NAMES, PRIOR, NETWORK = "exact table", "name table", "site prior", "network"
WITH_PRIOR, WITH_NETWORK = "tables, then prior", "tables, then network"
PREDICTORS = (EXACT, NAMES, PRIOR, NETWORK, WITH_PRIOR, WITH_NETWORK)

Result = dict[str, dict[str, Scored]]
"""`all` and `unknown` (to both tables; absent where there is none) -> predictor -> score."""


@dataclass(frozen=True)
class Learned:
    """What one set of runs taught; `network` None: none was asked for."""

    tables: Tables
    network: Network | None

    def answers(self, test: Dataset) -> dict[str, np.ndarray]:
        """Classes [N] by predictor."""
        exact, names = self.tables.exact(test), self.tables.names(test)
        prior = self.tables.prior(test)
        found = {EXACT: exact, NAMES: names, PRIOR: prior, WITH_PRIOR: first(exact, names, prior)}
        if self.network is not None:
            network = self.network.predict(test)
            found |= {NETWORK: network, WITH_NETWORK: first(exact, names, network)}
        return {name: found[name] for name in PREDICTORS if name in found}


@dataclass(frozen=True)
class Networks:
    """Where networks are kept, how many batches each learns (0: there are none), and which there
    are; `wanted` None: one for each set of runs."""

    folder: Path
    steps: int
    wanted: set[tuple[Run, ...]] | None

    def wants(self, runs: tuple[Run, ...]) -> bool:
        """Whether these runs are to be learned from by what is slow."""
        return self.wanted is None or runs in self.wanted


class Laboratory:
    """Reads each profile once and learns from each set of runs once."""

    def __init__(
        self, profiles: dict[Run, Path], networks: Networks, rule: str, say: Callable[[str], None]
    ) -> None:
        self._profiles = profiles
        self._networks = networks
        self._rule = rule  # tail: the product's labels; p95: those of ASPLOS 2020
        self._say = say
        self.contexts = cache(self._contexts)
        self._learned = cache(self._learn)
        self._taught = cache(self._teach)

    def result(self, case: Case) -> Result:
        """The scores of all predictors in one case."""
        test = self.contexts((case.test,))
        answers = self._learned(case.learn).answers(test)
        found = {"all": {name: scored(test, one) for name, one in answers.items()}}
        if (unknown := _unknown(answers)).any():
            few = test.pick(unknown.nonzero()[0])
            asked = {name: answers[name] for name in (PRIOR, NETWORK) if name in answers}
            found["unknown"] = {n: scored(few, one[unknown]) for n, one in asked.items()}
        return found

    def contest(self, case: Case) -> dict[str, Scored]:
        """The scores of all students where neither table knows; empty where they know all."""
        test = self.contexts((case.test,))
        answers = self._learned(case.learn).answers(test)
        if not (unknown := _unknown(answers)).any():
            return {}
        few = test.pick(unknown.nonzero()[0])
        found = {n: answers[n][unknown] for n in (PRIOR, NETWORK) if n in answers}
        found |= {name: one.predict(few) for name, one in self._taught(case.learn).items()}
        return {name: scored(few, one) for name, one in found.items()}

    def _teach(self, runs: tuple[Run, ...]) -> dict[str, Predictor]:
        learned = self.contexts(runs)
        found: dict[str, Predictor] = {"chains": Chains(learned), "nearest": Nearest(learned)}
        for student in STUDENTS:
            self._say(f"{student.name} learns {_title(runs)}")
            found[student.name] = Trained(student, learned)
        return found

    def _contexts(self, runs: tuple[Run, ...]) -> Dataset:
        return evidence.read([self._profiles[run] for run in runs], self._rule)

    def _learn(self, runs: tuple[Run, ...]) -> Learned:
        learned = self.contexts(runs)
        return Learned(Tables(learned, self._rule), self._network(runs, learned))

    def _network(self, runs: tuple[Run, ...], learned: Dataset) -> Network | None:
        if not self._networks.steps or not self._networks.wants(runs):
            return None
        self._say(f"network: {len(learned)} contexts of {_title(runs)}")
        kept = self._networks.folder / f"{file_name(runs)}.npz"
        return Network.trained(learned, kept, self._networks.steps)


def _unknown(answers: dict[str, np.ndarray]) -> np.ndarray:
    """Which contexts neither table knows; bool [N]."""
    return first(answers[EXACT], answers[NAMES]) == SILENT


def _title(runs: tuple[Run, ...]) -> str:
    return "+".join(map(str, runs))


def file_name(runs: tuple[Run, ...]) -> str:
    """Without its ending, what is learned from these runs; a hash where it would be too long."""
    title = _title(runs)
    return title if len(title) < 200 else hashlib.sha256(title.encode()).hexdigest()

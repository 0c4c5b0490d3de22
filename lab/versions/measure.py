# SPDX-License-Identifier: Apache-2.0
"""Learns from the runs of each case, asks every predictor about the run under test, and scores it.

Scored thrice: on all contexts; on those whose page group does not hang on one sample; and on those
that neither table knows, where only the prior and the network answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from lab.versions import evidence
from lab.versions.cases import Case
from lab.versions.predictors import (
    SILENT,
    Cascade,
    Network,
    Predictor,
    Prior,
    Table,
    exact_key,
    name_key,
)  # fmt: skip
from lab.versions.recording import Run
from lab.versions.scores import Scored, scored
from lab.versions.students import STUDENTS, Trained
from llamalloc.learning.dataset import Dataset

EXACT, NAMES, PRIOR, NETWORK = "exact table", "name table", "site prior", "network"
WITH_PRIOR, WITH_NETWORK = "tables, then prior", "tables, then network"
PREDICTORS = (EXACT, NAMES, PRIOR, NETWORK, WITH_PRIOR, WITH_NETWORK)

Result = dict[str, dict[str, Scored]]
"""`all`, `steady`, `unknown` (to both tables) -> predictor -> score; none where no context is."""


class Laboratory:
    """Reads each profile once and learns from each set of runs once."""

    def __init__(
        self,
        profiles: dict[Run, Path],
        kept: Path,
        steps: int,
        rule: str,
        say: Callable[[str], None],
    ) -> None:
        self._profiles = profiles
        self._kept = kept
        self._steps = steps  # batches that the network learns; 0: there is no network
        self._rule = rule  # tail: the product's labels; p95: those of ASPLOS 2020
        self._say = say
        self.contexts = cache(self._contexts)
        self._predictors = cache(self._learn)
        self._taught = cache(self._teach)

    def result(self, case: Case) -> Result:
        """The scores of all predictors in one case."""
        test = self.contexts((case.test,))
        learned = self._predictors(case.learn)
        answers = {name: one.predict(test) for name, one in learned.items()}
        unknown = (answers[EXACT] == SILENT) & (answers[NAMES] == SILENT)
        found = {"all": {name: scored(test, one) for name, one in answers.items()}}
        if unknown.any():
            few = test.pick(unknown.nonzero()[0])
            answering = {name: answers[name] for name in (PRIOR, NETWORK) if name in answers}
            found["unknown"] = {n: scored(few, one[unknown]) for n, one in answering.items()}
        certain = evidence.steady(test, self._rule)
        if certain.any():
            some = test.pick(certain.nonzero()[0])
            found["steady"] = {name: scored(some, one[certain]) for name, one in answers.items()}
        return found

    def contest(self, case: Case) -> dict[str, Scored]:
        """The scores of all students where neither table knows; empty where they know all."""
        test, learned = self.contexts((case.test,)), self._predictors(case.learn)
        silent = [learned[name].predict(test) == SILENT for name in (EXACT, NAMES)]
        few = test.pick((silent[0] & silent[1]).nonzero()[0])
        if not len(few):
            return {}
        return {name: scored(few, one.predict(few)) for name, one in self._taught(case.learn)}

    def _teach(self, runs: tuple[Run, ...]) -> list[tuple[str, Predictor]]:
        learned, present = self.contexts(runs), self._predictors(runs)
        network = present.get(NETWORK)
        found = [(name, present[name]) for name in (PRIOR, NETWORK) if name in present]
        for student in STUDENTS:
            if student.distilled and network is None:
                continue
            self._say(f"{student.name} learns {'+'.join(map(str, runs))}")
            found.append((student.name, Trained(student, learned, network)))
        return found

    def _contexts(self, runs: tuple[Run, ...]) -> Dataset:
        return evidence.read([self._profiles[run] for run in runs], self._rule)

    def _learn(self, runs: tuple[Run, ...]) -> dict[str, Predictor]:
        learned = self.contexts(runs)
        exact, names = (Table(learned, key, self._rule) for key in (exact_key, name_key))
        prior = Prior(learned)
        found = {EXACT: exact, NAMES: names, PRIOR: prior, WITH_PRIOR: Cascade(exact, names, prior)}
        if self._steps:
            network = self._network(runs, learned)
            found |= {NETWORK: network, WITH_NETWORK: Cascade(exact, names, network)}
        return {name: found[name] for name in PREDICTORS if name in found}

    def _network(self, runs: tuple[Run, ...], learned: Dataset) -> Network:
        title = "+".join(map(str, runs))
        self._say(f"network: {len(learned)} contexts of {title}")
        kept = self._kept / f"{self._rule}-{self._steps}" / f"{title}.npz"
        return Network.trained(learned, kept, self._steps)

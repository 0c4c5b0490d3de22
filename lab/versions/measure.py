# SPDX-License-Identifier: Apache-2.0
"""Learns from the runs of each case, asks every predictor about the run under test, and scores it.

Scored twice: on all contexts, and on those that neither table knows, where only the prior and the
network answer.
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
from llamalloc.learning.dataset import Dataset

EXACT, NAMES, PRIOR, NETWORK = "exact table", "name table", "site prior", "network"
WITH_PRIOR, WITH_NETWORK = "tables, then prior", "tables, then network"
PREDICTORS = (EXACT, NAMES, PRIOR, NETWORK, WITH_PRIOR, WITH_NETWORK)

Result = dict[str, dict[str, Scored]]
"""`all` and `unknown` (to both tables; absent where there is none) -> predictor -> score."""


class Laboratory:
    """Reads each profile once and learns from each set of runs once."""

    def __init__(self, profiles: dict[Run, Path], kept: Path, say: Callable[[str], None]) -> None:
        self._profiles = profiles
        self._kept = kept
        self._say = say
        self.contexts = cache(self._contexts)
        self._predictors = cache(self._learn)

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
        return found

    def _contexts(self, runs: tuple[Run, ...]) -> Dataset:
        return evidence.read([self._profiles[run] for run in runs])

    def _learn(self, runs: tuple[Run, ...]) -> dict[str, Predictor]:
        learned = self.contexts(runs)
        exact, names = Table(learned, exact_key), Table(learned, name_key)
        prior = Prior(learned)
        self._say(f"learning {'+'.join(map(str, runs))}: {len(learned)} contexts")
        network = Network.trained(learned, self._kept / f"{'+'.join(map(str, runs))}.npz")
        answers = (exact, names, prior, network)
        answers += (Cascade(exact, names, prior), Cascade(exact, names, network))
        return dict(zip(PREDICTORS, answers, strict=True))

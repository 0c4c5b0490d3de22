# SPDX-License-Identifier: Apache-2.0
"""How right a predictor is on a test run, as table 2 of ASPLOS 2020 counts it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

import numpy as np

from lab.versions.predictors import SILENT
from llamalloc.learning import metrics, trial
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import GROUP_OF_CLASS

_GROUPS = np.array(GROUP_OF_CLASS)


@dataclass(frozen=True)
class Right:
    """Shares from 0 to 1; silence counts as wrong.

    `known`: where there was an answer; `exact`, `near` and `group`: its class, that or the class
    next to it, its page group; `fair`: its group, or one that costs nothing (as `train` judges).
    """

    known: float
    exact: float
    near: float
    group: float
    fair: float


@dataclass(frozen=True)
class Scored:
    """The same by allocations and by contexts, of so many contexts."""

    contexts: int
    weighted: Right
    unweighted: Right

    def to_json(self) -> dict:
        """For results.json."""
        return asdict(self)


def scored(data: Dataset, predicted: np.ndarray) -> Scored:
    """Scores classes int [N], SILENT allowed, on a dataset of at least one context."""
    known = predicted != SILENT
    near = known & metrics.is_close(data.classes, predicted)
    group = known & (_GROUPS[data.classes] == _GROUPS[predicted])
    marks = (known, data.classes == predicted, near, group, _is_right(data, predicted))
    ones = np.ones(len(data))
    return Scored(len(data), _right(marks, data.weights), _right(marks, ones))


def _is_right(data: Dataset, predicted: np.ndarray) -> np.ndarray:
    rows = zip(data.lives, data.classes, predicted, strict=True)
    return np.array([
        chosen != SILENT and trial.is_right(lives, truth, chosen) for lives, truth, chosen in rows
    ])  # fmt: skip


def mean(some: Iterable[Scored]) -> Scored:
    """Every case counts once."""
    rows = list(some)
    return Scored(
        round(float(np.mean([row.contexts for row in rows]))),
        _mean([row.weighted for row in rows]),
        _mean([row.unweighted for row in rows]),
    )


def _mean(rows: list[Right]) -> Right:
    return Right(*[float(np.mean([getattr(r, f.name) for r in rows])) for f in fields(Right)])


def _right(marks: tuple[np.ndarray, ...], weights: np.ndarray) -> Right:
    return Right(*[float(weights[mark].sum() / weights.sum()) for mark in marks])

# SPDX-License-Identifier: Apache-2.0
"""How right predicted classes are: in all, nearly, and for what the heap does with them."""

from dataclasses import asdict, dataclass

import numpy as np

from llamalloc.learning.labels import CLASS_NAMES, GROUP_OF_CLASS, MIXED

_GROUPS = np.array(GROUP_OF_CLASS)


@dataclass(frozen=True)
class Score:
    """Shares from 0 to 1. Weighted: by estimated allocations; unweighted: every context once.

    `off_by_one` also counts the neighbouring time class as right (`mixed` has no neighbours);
    `page_group` counts whatever leads to the right kind of page, which is what the heap acts on.
    `coverage`: how much of the weight the predictor knew; 1 for the model, which always answers.
    """

    weighted: float
    unweighted: float
    off_by_one: float
    page_group: float
    coverage: float

    def to_json(self) -> dict[str, float]:
        """The fields as they are, for --json."""
        return asdict(self)


def score(
    truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, known: np.ndarray | None = None
) -> Score | None:
    """Scores classes `predicted` against `truth`, both int [N], `weights` [N]; None for N = 0."""
    if len(truth) == 0:
        return None
    right = truth == predicted
    return Score(
        weighted=_share(right, weights),
        unweighted=float(right.mean()),
        off_by_one=_share(is_close(truth, predicted), weights),
        page_group=_share(_GROUPS[truth] == _GROUPS[predicted], weights),
        coverage=1.0 if known is None else _share(known, weights),
    )


def is_close(truth: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Equal, or neighbours among the time classes; bool [N]."""
    ordinal = (truth != MIXED) & (predicted != MIXED)
    return (truth == predicted) | (ordinal & (np.abs(truth - predicted) <= 1))


def confusion(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weight by [true class, predicted class], both in the order of CLASS_NAMES."""
    matrix = np.zeros((len(CLASS_NAMES), len(CLASS_NAMES)))
    np.add.at(matrix, (truth, predicted), weights)
    return matrix


def _share(right: np.ndarray, weights: np.ndarray) -> float:
    return float(weights[right].sum() / weights.sum())

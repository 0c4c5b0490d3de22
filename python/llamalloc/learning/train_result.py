# SPDX-License-Identifier: Apache-2.0
"""What `train` found, as data: for --json, the terminal table and the HTML page."""

from dataclasses import dataclass

import numpy as np

from llamalloc.formats import histogram
from llamalloc.formats.learned_state import Gate, GateVerdict
from llamalloc.formats.model_file import Evidence
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.metrics import Score
from llamalloc.learning.trial import Trial
from llamalloc.learning.verdict import Verdict

SPLITS = {
    "holdout": "runs that the model did not learn from",
    "last run": "the last profile, learned only after it had been measured on",
    "contexts": "a fifth of the contexts, learned only after they had been measured on",
}

Scores = dict[str, dict[str, Score]]
"""Part (`learned`, `measured`, `never seen`) -> predictor -> score; empty where nothing is."""


@dataclass(frozen=True)
class Wrong:
    """A context that the model gets wrong; `share` of all allocations, `size` in bytes."""

    frames: tuple[str, ...]
    size: int
    samples: int
    share: float
    truth: str
    predicted: str
    probability: float


@dataclass(frozen=True)
class Measured:
    """Scores by part and predictor, the model's confusion and its weightiest errors."""

    scores: Scores
    confusion: np.ndarray
    wrong: list[Wrong]


@dataclass(frozen=True)
class Lifetimes:
    """Share of all allocations by class and lifetime: `dead` [C, buckets], `alive` [C]."""

    dead: np.ndarray
    alive: np.ndarray


@dataclass(frozen=True)
class TrainResult:
    """One training: what went in, what came out, how right it is, how long it took."""

    program: str
    rule: str
    tail: float
    seed: int
    split: str
    profiles: list[str]
    states: list[str]
    holdout: list[str]
    learned: Dataset
    measured_on: Dataset
    scores: Scores
    confusion: np.ndarray
    wrong: list[Wrong]
    shipped: Score | None  # None: no profile, so no network
    lifetimes: Lifetimes
    evidence: Evidence
    trial: Trial
    verdict: Verdict
    gate: Gate  # what the runs prove of placement
    vocabulary: int
    steps: int
    model_path: str
    model_bytes: int
    seconds: float

    def to_json(self) -> dict:
        """Everything a script may want; shares from 0 to 1, sizes in bytes."""
        return {
            "program": self.program,
            "rule": self.rule,
            "tail": self.tail,
            "seed": self.seed,
            "profiles": self.profiles,
            "states": self.states,
            "holdout": self.holdout,
            "split": self.split,
            "dataset": {"learned": _facts(self.learned), "measured": _facts(self.measured_on)},
            "scores": {
                part: {name: score.to_json() for name, score in by_name.items()}
                for part, by_name in self.scores.items()
            },
            "shipped": self.shipped and self.shipped.to_json(),
            "evidence": self.trial.to_json() | _tables(self.evidence),
            "verdict": self.verdict.to_json(),
            "places_from_start": self.gate.verdict != GateVerdict.UNTRIED,
            "classes": list(CLASS_NAMES),
            "confusion": self.confusion.tolist(),
            "wrong": [{**vars(wrong), "frames": list(wrong.frames)} for wrong in self.wrong],
            "model": {
                "path": self.model_path,
                "bytes": self.model_bytes,
                "vocabulary": self.vocabulary,
                "steps": self.steps,
            },
            "seconds": round(self.seconds, 3),
        }


def _tables(evidence: Evidence) -> dict:
    """Sizes and trust; -1: not measured."""
    return {
        "exact_nodes": len(evidence.exact_keys),
        "name_nodes": len(evidence.name_keys),
        "table_trust": [round(float(share), 4) for share in evidence.table_trust],
        "prior_trust": [round(float(share), 4) for share in evidence.prior_trust],
        "network_trust": [round(float(share), 4) for share in evidence.network_trust],
    }


def contexts_by_class(data: Dataset) -> dict[str, int]:
    """How many contexts carry each class."""
    counts = np.bincount(data.classes, minlength=len(CLASS_NAMES))
    return {name: int(count) for name, count in zip(CLASS_NAMES, counts, strict=True)}


def _facts(data: Dataset) -> dict:
    return {
        "contexts": len(data),
        "allocations": int(data.weights.sum()),
        "samples": sum(one.total for one in data.lives),
        "contexts_by_class": contexts_by_class(data),
    }


def lifetimes_by_class(data: Dataset) -> Lifetimes:
    """Spreads the weight of every context over the lifetimes of its samples."""
    dead = np.zeros((len(CLASS_NAMES), histogram.MAX_BUCKET + 1))
    alive = np.zeros(len(CLASS_NAMES))
    for lives, weight, label in zip(data.lives, data.weights, data.classes, strict=True):
        per_sample = weight / lives.total
        for bucket, count in lives.dead.items():
            dead[label, bucket] += per_sample * count
        alive[label] += per_sample * (histogram.total(lives.young) + lives.immortal)
    total = float(data.weights.sum()) or 1.0
    return Lifetimes(dead / total, alive / total)

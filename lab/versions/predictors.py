# SPDX-License-Identifier: Apache-2.0
"""What answers for a context, from the most exact evidence to the least.

exact table   frames as (build-id, offset), and size      silent on another build
name table    frame names without clone suffixes, size    survives a rebuild
site prior    the longest known chain of innermost names, with the size, else without it
network       the LSTM of the product; always answers

A table pools the sampled lives under a key and labels them as `train` does. -1: it does not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Protocol

import numpy as np

from lab.versions import evidence
from llamalloc.formats.model_file import Weights
from llamalloc.learning import dataset, fit, labels, lstm
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.survival import Lives

SILENT = -1
_DEEPEST = 8
_ANY = 1e-9  # a rounding error is no vote

Key = Callable[[tuple[str, ...], int], Hashable]


class Predictor(Protocol):
    """Learned from one dataset; answers for another."""

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]; SILENT where it does not know."""


def exact_key(frames: tuple[str, ...], size: int) -> Hashable:
    """Where the code is, and how much."""
    return evidence.places(frames), size


def name_key(frames: tuple[str, ...], size: int) -> Hashable:
    """How the functions are called, and how much."""
    return evidence.source_names(frames), size


class Table:
    """One class for each key."""

    def __init__(self, learned: Dataset, key: Key, rule: str) -> None:
        self._key = key
        lives: dict[Hashable, list[Lives]] = defaultdict(list)
        for (frames, size), one in zip(learned.contexts(), learned.lives, strict=True):
            lives[key(frames, size)].append(one)
        self.classes = {k: labels.label(evidence.pooled(some), rule) for k, some in lives.items()}

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]."""
        keys = [self._key(frames, size) for frames, size in data.contexts()]
        return np.array([self.classes.get(key, SILENT) for key in keys], dtype=np.int64)


class Prior:
    """Tables by ever fewer callers; with the size first, then without. Ends in the whole program.

    Under a key the class is that of most contexts' allocations, not of the pooled tail: one context
    that lives long would else make all of its neighbours permanent.
    """

    def __init__(self, learned: Dataset, deepest: int = _DEEPEST) -> None:
        self._deepest = deepest
        self._votes: dict[Hashable, np.ndarray] = defaultdict(lambda: np.zeros(len(CLASS_NAMES)))
        for (frames, size), vote in zip(learned.contexts(), _votes(learned), strict=True):
            for key in self._keys(frames, size):
                self._votes[key] += vote

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]; never SILENT."""
        return chosen(self.shares(data))

    def shares(self, data: Dataset, without: bool = False) -> np.ndarray:
        """Of the classes under each context's nearest key, [N, C]; `without` its own vote."""
        own = _votes(data) if without else np.zeros((len(data), len(CLASS_NAMES)))
        found = [self._nearest(*one, vote) for one, vote in zip(data.contexts(), own, strict=True)]
        return np.array(found)

    def _nearest(self, frames: tuple[str, ...], size: int, own: np.ndarray) -> np.ndarray:
        for key in self._keys(frames, size):
            if key in self._votes:
                left = np.maximum(self._votes[key] - own, 0)
                if left.sum() > _ANY * self._votes[key].sum():
                    return left / left.sum()
        return np.full(len(CLASS_NAMES), 1 / len(CLASS_NAMES))

    def _keys(self, frames: tuple[str, ...], size: int) -> list[Hashable]:
        chain = evidence.source_names(frames[: self._deepest])
        depths = range(len(chain), 0, -1)
        exact = [(chain[:depth], size) for depth in depths]
        return [*exact, *[(chain[:depth], None) for depth in depths], ((), None)]


def _votes(data: Dataset) -> np.ndarray:
    """The weight of each context at its class, [N, C]."""
    return np.eye(len(CLASS_NAMES))[data.classes] * data.weights[:, None]


class Network:
    """The LSTM of the product, trained as the product trains it."""

    def __init__(self, words: list[str], weights: Weights) -> None:
        self._words = words
        self._weights = weights

    @classmethod
    def trained(cls, learned: Dataset, kept: Path, steps: int) -> Network:
        """Learns it, or reads it from the file `kept` if it was learned before."""
        if kept.exists():
            with np.load(kept) as found:
                weights = Weights(*[found[name] for name in Weights._fields])
                return cls(found["words"].tolist(), weights)
        sequences = named(learned).tokens()
        words = dataset.vocabulary(sequences)
        start = lstm.initial(0, len(words), len(CLASS_NAMES))
        encoded = dataset.encode(sequences, words)
        best = fit.fit(start, encoded, learned.classes, learned.weights, seed=0, steps=steps)
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_name("new-" + kept.name)
        np.savez(fresh, words=np.array(words), **best.weights._asdict())
        fresh.rename(kept)
        return cls(words, best.weights)

    def probabilities(self, data: Dataset) -> np.ndarray:
        """Of the classes, [N, C]."""
        return fit.predict(self._weights, dataset.encode(named(data).tokens(), self._words))

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]: the likeliest class of the likeliest page group, as the library does."""
        return chosen(self.probabilities(data))


class Cascade:
    """The first of several that knows."""

    def __init__(self, *members: Predictor) -> None:
        self._members = members

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]."""
        classes = np.full(len(data), SILENT)
        for member in self._members:
            classes = np.where(classes == SILENT, member.predict(data), classes)
        return classes


def chosen(probabilities: np.ndarray) -> np.ndarray:
    """Classes int [N] of probabilities [N, C]: the page group first, then a class of it."""
    groups = np.array(labels.GROUP_OF_CLASS)
    sums = np.stack([probabilities[:, groups == g].sum(axis=1) for g in range(groups.max() + 1)], 1)
    of_group = groups == sums.argmax(axis=1)[:, None]
    return np.where(of_group, probabilities, -1).argmax(axis=1)


def named(data: Dataset) -> Dataset:
    """The same contexts by the frame names of the product."""
    frames = tuple(evidence.names(one) for one in data.frames)
    return Dataset(frames, data.sizes, data.lives, data.weights, data.classes)

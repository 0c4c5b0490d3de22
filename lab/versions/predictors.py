# SPDX-License-Identifier: Apache-2.0
"""What answers for a context, from the most exact evidence to the least.

exact table   frames as (build-id, offset), and size      silent on another build
name table    frame names without clone suffixes, size    survives a rebuild
site prior    how the innermost functions that are known allocate
network       the bag of frames of the product; always answers

These are the product's own. `Chains` and `Nearest` are candidates for a better prior.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Protocol

import numpy as np

from lab.versions import evidence
from llamalloc.formats.model_file import NEARNESSES, OPEN, Weights
from llamalloc.learning import bag_of_frames, dataset, fit, labels, tables
from llamalloc.learning.context_tree import Rule
from llamalloc.learning.contexts import Kept
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.lookup import Found, Lookup

SILENT = -1
_DEEPEST = 8
_ANY = 1e-9  # a rounding error is no vote
_SHARPNESS = 20.0


class Predictor(Protocol):
    """Learned from one dataset; answers for another."""

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]; SILENT where it does not know."""


class Tables:
    """The product's tables, as `train` builds them and the library asks them; all trusted."""

    def __init__(self, learned: Dataset, rule: str) -> None:
        found = tables.build(evidence.seen(learned), Kept(), Rule(rule))
        found = found._replace(prior_trust=np.ones(len(NEARNESSES), np.float32))
        nameless = found.name_answers.copy()
        nameless[nameless[:, 0] < OPEN, 0] = OPEN
        self._lookup = Lookup(found)
        self._prior = Lookup(found._replace(name_answers=nameless))

    def exact(self, data: Dataset) -> np.ndarray:
        """What the exact table says; classes int [N]."""
        return _classes(
            self._lookup.find_exact(evidence.codes_of(frames), size)
            for frames, size in data.contexts()
        )

    def names(self, data: Dataset) -> np.ndarray:
        """What the table of names says; classes int [N]."""
        found = [self._lookup.find_named(*_by_name(one)) for one in data.contexts()]
        return _classes(one if one.kind == "name" else None for one in found)

    def prior(self, data: Dataset) -> np.ndarray:
        """What the prior says, also where the tables know; classes int [N]."""
        found = [self._prior.find_named(*_by_name(one)) for one in data.contexts()]
        return _classes(one if one.kind == "prior" else None for one in found)


def _by_name(context: tuple[tuple[str, ...], int]) -> tuple[tuple[str, ...], int]:
    return evidence.names(context[0]), context[1]


def _classes(found: Iterable[Found | None]) -> np.ndarray:
    return np.array([SILENT if one is None else one.lifetime for one in found], dtype=np.int64)


class Chains:
    """Votes under ever fewer innermost names; with the size first, then without; at last of all.

    A vote is the weight of a context at its class.
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
    """The network of the product, trained as the product trains it."""

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
        start = bag_of_frames.initial(0, len(words), len(CLASS_NAMES))
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


class Nearest:
    """Votes of the contexts that share the most functions, rare ones counting more.

    Alike is the sum, over functions that both have, of log(contexts / contexts with it), over the
    same sum of the two's union; an equal size adds a tenth of the greatest.
    """

    def __init__(self, learned: Dataset) -> None:
        self._sets = [frozenset(evidence.source_names(frames)) for frames in learned.frames]
        self._sizes = np.array(learned.sizes, dtype=np.float64)
        self._votes = _votes(learned) / learned.weights[:, None] * np.sqrt(learned.weights)[:, None]
        often = Counter(name for names in self._sets for name in names)
        self._worth = {name: np.log(1 + len(learned) / count) for name, count in often.items()}
        self._none = np.log(1 + len(learned))

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]; never SILENT."""
        return chosen(np.array([self._one(*context) for context in data.contexts()]))

    def _one(self, frames: tuple[str, ...], size: int) -> np.ndarray:
        names = frozenset(evidence.source_names(frames))
        alike = np.array([self._alike(names, other) for other in self._sets])
        alike += 0.1 * np.exp(-np.abs(np.log2(self._sizes / size)))
        share = np.exp(_SHARPNESS * (alike - alike.max()))
        votes = (self._votes * share[:, None]).sum(axis=0)
        return votes / votes.sum()

    def _alike(self, one: frozenset[str], other: frozenset[str]) -> float:
        shared, union = (self._sum(names) for names in (one & other, one | other))
        return shared / union if union else 0.0

    def _sum(self, names: frozenset[str]) -> float:
        return sum(self._worth.get(name, self._none) for name in names)


def first(*answers: np.ndarray) -> np.ndarray:
    """Classes int [N] of the first that is not silent."""
    found = answers[0]
    for one in answers[1:]:
        found = np.where(found == SILENT, one, found)
    return found


def chosen(probabilities: np.ndarray) -> np.ndarray:
    """Classes int [N] of probabilities [N, C]: the likeliest page group, then a class of it."""
    groups = np.array(labels.GROUP_OF_CLASS)
    sums = np.stack([probabilities[:, groups == g].sum(axis=1) for g in range(groups.max() + 1)], 1)
    of_group = groups == sums.argmax(axis=1)[:, None]
    return np.where(of_group, probabilities, -1).argmax(axis=1)


def named(data: Dataset) -> Dataset:
    """The same contexts by the frame names of the product."""
    frames = tuple(evidence.names(one) for one in data.frames)
    return Dataset(frames, data.sizes, data.lives, data.weights, data.classes)

# SPDX-License-Identifier: Apache-2.0
"""The tables that the model has to beat (papers/000, section 2: "a simple lookup table").

exact context    all frames + size bucket: perfect on what it has seen, silent on the rest
site             innermost frame + size bucket: covers much, blurs what callers do differently

A table answers the class that holds most of the weight seen under a key; what it does not know gets
the class that holds most of all weight.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import CLASS_NAMES

Key = Callable[[tuple[str, ...], int], Hashable]


def exact_key(frames: tuple[str, ...], size: int) -> Hashable:
    """The whole context."""
    return frames, size


def site_key(frames: tuple[str, ...], size: int) -> Hashable:
    """Who called malloc, and for how much."""
    return frames[:1], size


@dataclass(frozen=True)
class Table:
    """Class by key, with a default for the unknown."""

    key: Key
    classes: dict[Hashable, int]
    default: int

    def predict(self, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
        """Classes int [N] and whether the key was known, bool [N]."""
        keys = [self.key(frames, size) for frames, size in data.contexts()]
        classes = np.array([self.classes.get(key, self.default) for key in keys], dtype=np.int64)
        return classes, np.array([key in self.classes for key in keys], dtype=bool)


def table(data: Dataset, key: Key) -> Table:
    """Learns a table from a dataset of at least one context."""
    weight_of = defaultdict(lambda: np.zeros(len(CLASS_NAMES)))
    for (frames, size), weight, label in zip(
        data.contexts(), data.weights, data.classes, strict=True
    ):
        weight_of[key(frames, size)][label] += weight
    classes = {known: int(weights.argmax()) for known, weights in weight_of.items()}
    return Table(key, classes, int(sum(weight_of.values()).argmax()))

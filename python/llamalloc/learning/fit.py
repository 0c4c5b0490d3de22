# SPDX-License-Identifier: Apache-2.0
"""Gradient training of the LSTM on one dataset (papers/000, sections 5.1 and 5.2).

    contexts -> few padded lengths (one compilation each) -> resampled batches -> Adam, clipped
             -> every CHECK_EVERY steps: how right on all contexts? right enough: stop

Resampling: half of a batch by weight, as in the paper, half uniform over contexts. What is kept for
long is allocated rarely and yet holds most of the memory; by weight alone it would never be seen.
The same seed and data give the same weights on the same machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import optax

from llamalloc.learning import lstm
from llamalloc.learning.dataset import Encoded, width
from llamalloc.learning.lstm import Weights

BATCH = 64
LEARNING_RATE = 1e-3
CLIP = 5.0
TOKEN_DROPOUT = 0.02
CHECK_EVERY = 50
GOOD_WEIGHTED = 0.9995
GOOD_UNWEIGHTED = 0.995
_CHUNK = 256
_OPTIMISER = optax.chain(optax.clip_by_global_norm(CLIP), optax.adam(LEARNING_RATE))

Report = Callable[[int, float, float], None]
"""Called with the step, the mean loss since the last call, and the weighted accuracy."""


@dataclass(frozen=True)
class Fit:
    """The best weights found and what they reach on the contexts trained on, shares 0 to 1."""

    weights: Weights
    steps: int
    weighted: float
    unweighted: float


@dataclass(frozen=True)
class _Bucket:
    """Contexts of like length: `members` [n] rows of the dataset, ids cut to width T."""

    members: np.ndarray
    width: int


def fit(
    weights: Weights,
    data: Encoded,
    classes: np.ndarray,
    allocations: np.ndarray,
    *,
    seed: int,
    steps: int,
    report: Report = lambda step, loss, accuracy: None,
) -> Fit:
    """Trains from `weights` for at most `steps` batches; keeps the best weights seen.

    `classes` int [N], `allocations` [N] the weights of the contexts, N >= 1.
    """
    classes = classes.astype(np.int32)
    sampler = _Sampler(_buckets(data), allocations, seed)
    state = _OPTIMISER.init(weights)
    best = _measured(weights, data, classes, allocations, 0)
    losses = []
    for step in range(1, steps + 1):
        columns, rows = sampler.batch()
        ids = sampler.with_dropout(data.ids[rows, :columns])
        weights, state, loss = _step(weights, state, ids, data.lengths[rows], classes[rows])
        losses.append(loss)
        if step % CHECK_EVERY and step != steps:
            continue
        now = _measured(weights, data, classes, allocations, step)
        best = max(now, best, key=lambda one: one.weighted + one.unweighted)
        report(step, float(np.mean(losses)), now.weighted)
        losses = []
        if now.weighted >= GOOD_WEIGHTED and now.unweighted >= GOOD_UNWEIGHTED:
            break
    return best


def predict(weights: Weights, data: Encoded) -> np.ndarray:
    """Class probabilities, float32 [N, C]."""
    results = np.zeros((len(data.lengths), weights.dense_bias.shape[0]), np.float32)
    for bucket in _buckets(data):
        for start in range(0, len(bucket.members), _CHUNK):
            rows = bucket.members[start : start + _CHUNK]
            padded = np.resize(rows, _CHUNK)
            ids, lengths = data.ids[padded, : bucket.width], data.lengths[padded]
            results[rows] = _probabilities(weights, ids, lengths)[: len(rows)]
    return results


_probabilities = jax.jit(lstm.probabilities)


@partial(jax.jit, donate_argnums=1)
def _step(weights: Weights, state, ids, lengths, classes):
    """One batch: ids [B, T], lengths [B], classes [B]."""

    def loss_of(weights: Weights):
        logits = lstm.logits(weights, ids, lengths)
        return optax.softmax_cross_entropy_with_integer_labels(logits, classes).mean()

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    update, state = _OPTIMISER.update(gradient, state, weights)
    return optax.apply_updates(weights, update), state, loss


def _measured(weights: Weights, data: Encoded, classes, allocations, step: int) -> Fit:
    right = predict(weights, data).argmax(axis=1) == classes
    weighted = float(allocations[right].sum() / allocations.sum())
    return Fit(weights, step, weighted, float(right.mean()))


def _buckets(data: Encoded) -> list[_Bucket]:
    """At most three widths: for the shorter half, up to the 90th percentile, for all."""
    if len(data.lengths) == 0:
        return []
    edges = np.quantile(data.lengths, [0.5, 0.9, 1.0], method="higher")
    widths = sorted({width(int(edge)) for edge in edges})
    homes = np.searchsorted(widths, data.lengths)
    return [
        _Bucket(np.flatnonzero(homes == home), columns)
        for home, columns in enumerate(widths)
        if (homes == home).any()
    ]


class _Sampler:
    """Draws batches: a bucket by its mass, then BATCH of its contexts with replacement."""

    def __init__(self, buckets: list[_Bucket], allocations: np.ndarray, seed: int):
        share = 0.5 * allocations / allocations.sum() + 0.5 / len(allocations)
        masses = np.array([share[bucket.members].sum() for bucket in buckets])
        self.buckets = buckets
        self.masses = masses / masses.sum()
        self.shares = [share[b.members] / m for b, m in zip(buckets, masses, strict=True)]
        self.random = np.random.default_rng(seed)

    def batch(self) -> tuple[int, np.ndarray]:
        """Width T and rows [BATCH]."""
        index = self.random.choice(len(self.buckets), p=self.masses)
        bucket = self.buckets[index]
        return bucket.width, self.random.choice(bucket.members, BATCH, p=self.shares[index])

    def with_dropout(self, ids: np.ndarray) -> np.ndarray:
        """A few tokens become <unk>, so that the model does not hang on single names."""
        return np.where(self.random.random(ids.shape, np.float32) < TOKEN_DROPOUT, 0, ids)

# SPDX-License-Identifier: Apache-2.0
"""Gradient training of the network on one dataset.

    contexts -> resampled batches, frames left out and put in -> Adam, clipped
             -> every CHECK_EVERY steps: how right on all contexts? right enough: stop

Resampling: half of a batch by weight, as in the paper (papers/000, section 5.1), half uniform over
contexts. What is kept for long is allocated rarely and yet holds most of the memory; by weight
alone it would never be seen. Frames are left out at random, and empty ones put in: another compiler
inlines other functions, so what lies further out is at another depth (docs/accuracy.md, The
network). The same seed and data give the same weights on the same machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
import optax

from llamalloc.formats.model_file import Weights
from llamalloc.formats.tokens import MAX_FRAMES
from llamalloc.learning import bag_of_frames
from llamalloc.learning.dataset import Encoded

BATCH = 128
LEARNING_RATE = 3e-3
WEIGHT_DECAY = 1e-2
CLIP = 5.0
FRAME_DROPOUT = FRAME_INSERTION = 0.15
CHECK_EVERY = 50
GOOD_WEIGHTED = 0.9995
GOOD_UNWEIGHTED = 0.995
_CHUNK = 256
_OPTIMISER = optax.chain(
    optax.clip_by_global_norm(CLIP), optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY)
)

Report = Callable[[int, float, float], None]
"""Called with the step, the mean loss since the last call, and the weighted accuracy."""


@dataclass(frozen=True)
class Fit:
    """The best weights found and what they reach on the contexts trained on, shares 0 to 1."""

    weights: Weights
    steps: int
    weighted: float
    unweighted: float


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
    sampler = _Sampler(data, allocations, seed)
    state = _OPTIMISER.init(weights)
    best = _measured(weights, data, classes, allocations, 0)
    losses = []
    for step in range(1, steps + 1):
        rows, batch = sampler.batch()
        weights, state, loss = _step(weights, state, batch, classes[rows])
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
    count = len(data.sizes)
    results = np.zeros((count, weights.dense_bias.shape[0]), np.float32)
    for start in range(0, count, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, count))
        padded = np.resize(rows, _CHUNK)  # one shape, for JAX compiles each
        results[rows] = _probabilities(weights, *data.pick(padded))[: len(rows)]
    return results


_probabilities = jax.jit(bag_of_frames.probabilities)


@partial(jax.jit, donate_argnums=1)
def _step(weights: Weights, state, batch: Encoded, classes):
    """One batch; classes [B]."""

    def loss_of(weights: Weights):
        logits = bag_of_frames.logits(weights, *batch)
        return optax.softmax_cross_entropy_with_integer_labels(logits, classes).mean()

    loss, gradient = jax.value_and_grad(loss_of)(weights)
    update, state = _OPTIMISER.update(gradient, state, weights)
    return optax.apply_updates(weights, update), state, loss


def _measured(weights: Weights, data: Encoded, classes, allocations, step: int) -> Fit:
    right = predict(weights, data).argmax(axis=1) == classes
    weighted = float(allocations[right].sum() / allocations.sum())
    return Fit(weights, step, weighted, float(right.mean()))


class _Sampler:
    """Draws batches: BATCH contexts with replacement, their frames moved as inlining moves them."""

    def __init__(self, data: Encoded, allocations: np.ndarray, seed: int):
        self.data = data
        self.shares = 0.5 * allocations / allocations.sum() + 0.5 / len(allocations)
        self.random = np.random.default_rng(seed)

    def batch(self) -> tuple[np.ndarray, Encoded]:
        """Rows [BATCH] and what the network sees of them."""
        rows = self.random.choice(len(self.shares), BATCH, p=self.shares)
        batch = self.data.pick(rows)
        kept = self.random.random((BATCH, MAX_FRAMES), np.float32) >= FRAME_DROPOUT
        put_in = self.random.random((BATCH, MAX_FRAMES), np.float32) < FRAME_INSERTION
        moved = np.cumsum(kept, axis=1) - kept + np.cumsum(put_in, axis=1)
        counts, depths = (
            np.take_along_axis(values, batch.depths, axis=1) for values in (kept, moved)
        )
        return rows, batch._replace(
            counts=batch.counts * counts, depths=np.minimum(depths, MAX_FRAMES - 1, dtype=np.int32)
        )

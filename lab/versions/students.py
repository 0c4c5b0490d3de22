# SPDX-License-Identifier: Apache-2.0
"""Candidates for a better network on contexts that no table knows. Small, and trained in seconds.

    context -> Features: names and words of its frames by depth, its size, votes of the site prior
            -> one of BODIES -> hazards of the 8 time classes, and the chance of `mixed`

    bag        words' vectors added up by depth             the product's, but with whole names
    LSTM       of ASPLOS 2020, from the innermost word to the outermost
    minGRU     h = (1 - z) h + z v, z and v from the frame alone (Feng et al., 2024)
    +prior     adds the votes of the site prior for this context, its own vote left out
    ordinal    learns deaths and departures by class (a hazard each), not the label of the longest

While training, frames are moved as for the product's network (learning/fit.py), or stay in place.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lab.versions import evidence
from lab.versions.predictors import Chains, chosen
from lab.versions.scores import scored
from llamalloc.formats import tokens
from llamalloc.learning import dataset, fit, labels
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.survival import Lives

TIME_CLASSES = len(CLASS_NAMES) - 1
WIDTH, BATCH, STEPS = 48, 128, 400
FRAMES, WORDS, BINS = 16, 6, 1 << 12
_HELD_OUT, _LEAST, _SEED = 0.25, 0.01, 0
_TAILS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003, 0.001, 1e-4)
_OPTIMISER = optax.chain(optax.clip_by_global_norm(5.0), optax.adamw(3e-3, weight_decay=1e-2))


@dataclass(frozen=True)
class Student:
    """A candidate: its body and loss, whether it sees the prior's votes, whether frames stay."""

    name: str
    body: str  # of BODIES
    prior: bool = False
    ordinal: bool = False
    stays: bool = False


STUDENTS = (
    Student("bag", "bag"),
    Student("bag, frames stay", "bag", stays=True),
    Student("LSTM", "LSTM"),
    Student("minGRU", "minGRU"),
    Student("bag, ordinal", "bag", ordinal=True),
    Student("bag + prior", "bag", prior=True),
    Student("minGRU + prior", "minGRU", prior=True),
    Student("bag + prior, ordinal", "bag", prior=True, ordinal=True),
)


@dataclass(frozen=True)
class Features:
    """`words` int32 [N, FRAMES, 1 + WORDS] hashed to BINS, 0 none; `sizes` int32 [N];
    `votes` float32 [N, C]: logarithms of the prior's shares."""

    words: np.ndarray
    sizes: np.ndarray
    votes: np.ndarray


def features(data: Dataset, votes: np.ndarray) -> Features:
    """What a student sees of each context: names of source functions and their words."""
    words = np.zeros((len(data), FRAMES, 1 + WORDS), np.int32)
    for row, frames in zip(words, data.frames, strict=True):
        for at, name in zip(row, evidence.source_names(frames[:FRAMES]), strict=False):
            found = [name, *tokens.frame_tokens(name)][: 1 + WORDS]
            at[: len(found)] = [_bin(word) for word in found]
    sizes = np.minimum(2 * np.log2(np.maximum(data.sizes, 1)), 63)
    return Features(words, sizes.astype(np.int32), votes.astype(np.float32))


def _bin(word: str) -> int:
    return 1 + zlib.crc32(word.encode()) % (BINS - 1)


def outcomes(lives: tuple[Lives, ...]) -> np.ndarray:
    """Deaths, then departures, by time class, as shares of a context's samples; [N, 2, 8].

    Survivors that had lived long leave in the last class, beside those never freed.
    """
    found = np.zeros((len(lives), 2, TIME_CLASSES), np.float32)
    for row, one in zip(found, lives, strict=True):
        for kind, counts in enumerate((one.dead, one.young)):
            for bucket, count in counts.items():
                row[kind, labels.class_of_bucket(bucket)] += count
        row[1, -1] += one.immortal + one.elders
        row /= max(row.sum(), 1)
    return found


def _initial(seed: int) -> dict:
    random = np.random.default_rng(seed)

    def drawn(*shape: int, scale: float | None = None) -> jnp.ndarray:
        scale = shape[0] ** -0.5 if scale is None else scale
        return jnp.asarray(random.standard_normal(shape, np.float32) * np.float32(scale))

    return {
        "words": drawn(BINS, WIDTH, scale=0.3),
        "sizes": drawn(64, WIDTH, scale=0.3),
        "depths": jnp.ones((FRAMES, WIDTH)),
        "recurrent": drawn(2 * WIDTH, 4 * WIDTH),
        "recurrent_bias": jnp.repeat(jnp.array([0.0, 1.0, 0.0, 0.0]), WIDTH),
        "gate": drawn(WIDTH, WIDTH),
        "value": drawn(WIDTH, WIDTH),
        "hidden": drawn(2 * WIDTH, 64),
        "out": drawn(64, len(CLASS_NAMES), scale=0.02),
        "bias": jnp.zeros(len(CLASS_NAMES)),
        "trust": jnp.ones(()),
    }


def _logits(weights: dict, body: str, words, sizes, votes):
    """[B, C]; words [B, FRAMES, 1 + WORDS], sizes [B], votes [B, C]."""
    state = BODIES[body](weights, words)
    seen = jnp.concatenate([state, weights["sizes"][sizes]], axis=1)
    hidden = jax.nn.gelu(seen @ weights["hidden"])
    return hidden @ weights["out"] + weights["bias"] + weights["trust"] * votes


def _frames(weights: dict, words):
    """A vector for each frame [B, FRAMES, WIDTH], and whether it is there."""
    present = (words > 0)[..., None]
    vectors = (weights["words"][words] * present).sum(axis=2)
    return vectors / jnp.sqrt(jnp.maximum(present.sum(axis=2), 1)), present.any(axis=2)


def _bag(weights: dict, words):
    decay = weights["depths"] / jnp.sqrt(1.0 + jnp.arange(FRAMES))[:, None]
    return (_frames(weights, words)[0] * decay).sum(axis=1)


def _lstm(weights: dict, words):
    """Word by word, from the innermost frame to the outermost."""

    def step(state, word):
        h, c = state
        z = jnp.concatenate([weights["words"][word], h], axis=1) @ weights["recurrent"]
        i, f, g, o = jnp.split(z + weights["recurrent_bias"], 4, axis=1)
        c_next = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h_next = jax.nn.sigmoid(o) * jnp.tanh(c_next)
        is_there = (word > 0)[:, None]
        return (jnp.where(is_there, h_next, h), jnp.where(is_there, c_next, c)), None

    order = words.reshape(len(words), -1).T
    zeros = jnp.zeros((len(words), WIDTH))
    return jax.lax.scan(step, (zeros, zeros), order)[0][0]


def _min_gru(weights: dict, words):
    """From the outermost frame to the innermost, which so counts most."""
    frames, present = _frames(weights, words)

    def step(h, at):
        frame, is_there = at
        z = jax.nn.sigmoid(frame @ weights["gate"]) * is_there
        return (1 - z) * h + z * (frame @ weights["value"]), None

    order = (frames.transpose(1, 0, 2)[::-1], present.transpose(1, 0, 2)[::-1])
    return jax.lax.scan(step, jnp.zeros_like(frames[:, 0]), order)[0]


BODIES = {"bag": _bag, "LSTM": _lstm, "minGRU": _min_gru}


@partial(jax.jit, static_argnums=1)
def _run(weights: dict, student: Student, words, sizes, votes):
    return _logits(weights, student.body, words, sizes, votes)


@partial(jax.jit, static_argnums=2)
def _step(weights: dict, state, student: Student, batch):
    def loss_of(weights: dict):
        words, sizes, votes, target = batch
        logits = _logits(weights, student.body, words, sizes, votes)
        if student.ordinal:
            return _hazard_loss(logits, target).mean()
        return optax.softmax_cross_entropy(logits, target).mean()

    update, state = _OPTIMISER.update(jax.grad(loss_of)(weights), state, weights)
    return optax.apply_updates(weights, update), state


def _hazard_loss(logits, target):
    """Minus the log likelihood of deaths and departures [B, 2, 8] under hazards [B, 8]."""
    h = logits[:, :TIME_CLASSES]
    deaths, leaving = target[:, 0], target[:, 1]
    gone = deaths + leaving
    beyond = gone.sum(axis=1, keepdims=True) - jnp.cumsum(gone, axis=1)
    dying, staying = jax.nn.log_sigmoid(h), jax.nn.log_sigmoid(-h)
    return -(deaths * dying + beyond * staying).sum(axis=1)


class Trained:
    """A student that has learned from a dataset, as a predictor."""

    def __init__(self, student: Student, learned: Dataset) -> None:
        self._student = student
        self._tail = _TAILS[0]
        if student.ordinal:
            self._choose_tail(learned)
        self._fit(learned)

    def predict(self, data: Dataset) -> np.ndarray:
        """Classes int [N]."""
        return self._chosen(self._answers(data), self._tail)

    def _choose_tail(self, learned: Dataset) -> None:
        """What share may outlive the class: as is best on contexts that were not learned."""
        kept, held = dataset.split_by_context(learned, _HELD_OUT, _SEED)
        self._fit(learned.pick(kept))
        test = learned.pick(held)
        answers = self._answers(test)

        def right(tail: float) -> float:
            score = scored(test, self._chosen(answers, tail))
            return score.weighted.group + score.unweighted.group

        self._tail = max(_TAILS, key=right)

    def _chosen(self, answers: np.ndarray, tail: float) -> np.ndarray:
        """Classes of softmax probabilities, or of hazards by the share that may outlive them."""
        if not self._student.ordinal:
            return chosen(answers)
        alive = np.cumprod(1 - answers[:, :TIME_CLASSES], axis=1)
        dead = alive <= tail
        return np.where(dead.any(axis=1), dead.argmax(axis=1), labels.NEVER)

    def _answers(self, data: Dataset) -> np.ndarray:
        """Probabilities [N, C]; of a student that learns hazards, those."""
        seen = features(data, self._votes(data, without=False))
        found = _run(self._weights, self._student, seen.words, seen.sizes, seen.votes)
        return np.array(jax.nn.sigmoid(found) if self._student.ordinal else jax.nn.softmax(found))

    def _votes(self, data: Dataset, without: bool) -> np.ndarray:
        if not self._student.prior:
            return np.zeros((len(data), len(CLASS_NAMES)), np.float32)
        shares = self._prior.shares(data, without)
        return _as_hazards(shares) if self._student.ordinal else np.log(shares + _LEAST)

    def _fit(self, learned: Dataset) -> None:
        self._prior = Chains(learned)
        words, sizes, votes, target = self._lesson(learned)
        random = np.random.default_rng(_SEED)
        share = 0.5 * learned.weights / learned.weights.sum() + 0.5 / len(learned)
        weights = _initial(_SEED)
        state = _OPTIMISER.init(weights)
        for _ in range(STEPS):
            rows = random.choice(len(share), BATCH, p=share)
            seen = words[rows] if self._student.stays else _moved(words[rows], random)
            batch = (seen, sizes[rows], votes[rows], target[rows])
            weights, state = _step(weights, state, self._student, batch)
        self._weights = weights

    def _lesson(self, data: Dataset) -> tuple[np.ndarray, ...]:
        """Words, sizes, votes and target of every context."""
        seen = features(data, self._votes(data, without=True))
        if self._student.ordinal:
            target = outcomes(data.lives)
        else:
            target = np.eye(len(CLASS_NAMES), dtype=np.float32)[data.classes]
        return seen.words, seen.sizes, seen.votes, target


def _moved(words: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The same [B, FRAMES, 1 + WORDS] with frames left out at random, and empty ones put in."""
    kept = random.random(words.shape[:2]) >= fit.FRAME_DROPOUT
    put_in = random.random(words.shape[:2]) < fit.FRAME_INSERTION
    places = np.cumsum(kept, axis=1) - kept + np.cumsum(put_in, axis=1)
    row, frame = (kept & (places < words.shape[1])).nonzero()
    found = np.zeros_like(words)
    found[row, places[row, frame]] = words[row, frame]
    return found


def _as_hazards(shares: np.ndarray) -> np.ndarray:
    """Logits of dying in each class, of classes' shares [N, C]; 0 for `mixed`."""
    found = np.zeros_like(shares)
    shares = shares[:, :TIME_CLASSES] + _LEAST
    beyond = shares[:, ::-1].cumsum(axis=1)[:, ::-1] - shares
    found[:, :TIME_CLASSES] = np.log(shares) - np.log(beyond + _LEAST)
    return found

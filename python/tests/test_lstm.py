# SPDX-License-Identifier: Apache-2.0
"""The model equals the contract's formulas, whatever it is batched and padded with."""

from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llamalloc.learning import lstm

CLASSES, WORDS = 9, 20
PROBABILITIES = jax.jit(lstm.probabilities)


@cache
def some_weights():
    """Made when first asked for: JAX's threads, once started, forbid the forks of other tests."""
    return lstm.initial(3, WORDS, CLASSES, embedding=5, hidden=7)


def by_the_contract(weights, ids):
    """contracts/model_format.md, Inference, word for word, in float64."""
    embedding, kernel, bias, dense, dense_bias = (np.asarray(w, np.float64) for w in weights)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    h = c = np.zeros(dense.shape[0])
    for x in ids:
        i, f, g, o = np.split(np.concatenate([embedding[x], h]) @ kernel + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    z = h @ dense + dense_bias
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


def padded(sequences, width, filler):
    ids = np.full((len(sequences), width), filler, np.int32)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = sequence
    return ids, np.array([len(sequence) for sequence in sequences], np.int32)


SEQUENCES = st.lists(st.integers(0, WORDS - 1), min_size=1, max_size=16)


@settings(max_examples=40, deadline=None)
@given(st.lists(SEQUENCES, min_size=4, max_size=4), st.integers(0, WORDS - 1))
def test_equals_the_contract_and_padding_changes_nothing(sequences, filler):
    found = PROBABILITIES(some_weights(), *padded(sequences, 16, filler))
    expected = [by_the_contract(some_weights(), sequence) for sequence in sequences]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_no_type_is_promoted_behind_our_back():
    with jax.numpy_dtype_promotion("strict"):
        assert lstm.logits(some_weights(), *padded([[1, 2]], 2, 0)).dtype == np.float32


def test_padding_is_exact_to_the_bit():
    short = padded([[1, 2, 3]], 3, 0)
    wide = padded([[1, 2, 3]], 16, 5)
    assert np.array_equal(lstm.logits(some_weights(), *short), lstm.logits(some_weights(), *wide))


def test_shapes_and_types_of_fresh_weights():
    fresh = lstm.initial(0, 100, CLASSES)
    assert [w.shape for w in fresh] == [(100, 32), (96, 256), (256,), (64, 9), (9,)]
    assert all(w.dtype == np.float32 for w in fresh)
    assert np.asarray(fresh.lstm_bias)[64:128] == pytest.approx(1.0)


def test_the_seed_decides():
    one, same, other = (lstm.initial(s, 9, CLASSES) for s in (1, 1, 2))
    assert np.array_equal(one.embedding, same.embedding)
    assert not np.array_equal(one.embedding, other.embedding)

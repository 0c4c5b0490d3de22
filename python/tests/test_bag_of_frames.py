# SPDX-License-Identifier: Apache-2.0
"""The network equals the contract's formulas, whatever it is batched and padded with."""

from functools import cache

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llamalloc.formats.model_file import size_row
from llamalloc.learning import bag_of_frames, dataset

CLASSES = 9
WORDS = ["<unk>", "@", *"abcdefgh"]
PROBABILITIES = jax.jit(bag_of_frames.probabilities)


@cache
def some_weights():
    """Made when first asked for: JAX's threads, once started, forbid the forks of other tests."""
    return bag_of_frames.initial(3, len(WORDS), CLASSES, embedding=5, hidden=7)


def by_the_contract(weights, sequence):
    """contracts/model_format.md, The network, word for word, in float64."""
    embedding, scale, kernel, size_bias, dense, dense_bias = (
        np.asarray(w, np.float64) for w in weights
    )
    state = np.zeros(embedding.shape[1])
    frames = " ".join(sequence[:-1]).split("@")[: len(scale)]
    for depth, frame in enumerate(frames):
        known = [WORDS.index(word) for word in frame.split() if word in WORDS[2:]]
        if known:
            state += scale[depth] * embedding[known].sum(axis=0) / np.sqrt(len(known))
    hidden = np.maximum(0, state @ kernel + size_bias[size_row(int(sequence[-1][1:]))])
    z = hidden @ dense + dense_bias
    return np.exp(z - z.max()) / np.exp(z - z.max()).sum()


TOKENS = st.lists(st.sampled_from([*WORDS, "@", "@", "unheard"]), max_size=40)
SEQUENCES = st.builds(lambda found, size: [*found, f"#{size}"], TOKENS, st.integers(1, 1 << 40))


@settings(max_examples=40, deadline=None)
@given(st.lists(SEQUENCES, min_size=4, max_size=4), st.integers(0, len(WORDS) - 1))
def test_equals_the_contract_and_padding_changes_nothing(sequences, filler):
    seen = dataset.encode(sequences, WORDS)
    there = seen.counts > 0
    seen = seen._replace(
        ids=np.where(there, seen.ids, filler), depths=np.where(there, seen.depths, 3)
    )
    found = PROBABILITIES(some_weights(), *seen)
    expected = [by_the_contract(some_weights(), sequence) for sequence in sequences]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_frames_beyond_the_last_depth_do_not_count():
    frames = ["a", "@"] * bag_of_frames.DEPTHS
    near, far = ([*frames, *more, "#16"] for more in ([], ["b", "@", "c"]))
    found = PROBABILITIES(some_weights(), *dataset.encode([near, far], WORDS))
    assert np.array_equal(found[0], found[1])


def test_no_type_is_promoted_behind_our_back():
    with jax.numpy_dtype_promotion("strict"):
        seen = dataset.encode([["a", "@", "b", "#32"]], WORDS)
        assert bag_of_frames.logits(some_weights(), *seen).dtype == np.float32


def test_shapes_and_types_of_fresh_weights():
    fresh = bag_of_frames.initial(0, 100, CLASSES)
    assert [w.shape for w in fresh] == [(100, 32), (16, 32), (32, 64), (64, 64), (64, 9), (9,)]
    assert all(w.dtype == np.float32 for w in fresh)


def test_the_seed_decides():
    one, same, other = (bag_of_frames.initial(s, 9, CLASSES) for s in (1, 1, 2))
    assert np.array_equal(one.embedding, same.embedding)
    assert not np.array_equal(one.embedding, other.embedding)

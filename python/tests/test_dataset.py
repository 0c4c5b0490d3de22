# SPDX-License-Identifier: Apache-2.0
"""Pooling, weights, splitting, vocabulary, ids."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import synthetic

from llamalloc.formats import tokens
from llamalloc.formats.profile import Context, Profile
from llamalloc.learning import dataset, labels
from llamalloc.learning.survival import Lives

MINUTE = 60 * 10**9


def context(frames, size=32, allocated=10, lifetimes=None, ages=None):
    return Context(tuple(frames), size, allocated, 0, 0, 0, 0, 0, lifetimes or {}, ages or {}, {})


def run(*contexts, exiting=True, duration_ns=MINUTE):
    return Profile(Path("p"), "p", exiting, 0, duration_ns, 1, contexts)


def test_runs_are_pooled_by_frames_and_size():
    data = dataset.build(
        [
            run(context("ab", 32, 10, {60: 3}), context("ab", 48, 1, {60: 1})),
            run(context("ab", 32, 20, {60: 2, 90: 1}), context("b", 32, 5, {60: 1})),
        ]
    )
    assert data.contexts() == [(("a", "b"), 32), (("b",), 32), (("a", "b"), 48)]
    assert data.weights.tolist() == [30, 5, 1]
    assert data.lives[0] == Lives({60: 5, 90: 1}, {})


def test_survivors_by_age_and_ending():
    young, old = 100, 140
    alive = context("a", ages={young: 2, old: 3})
    assert dataset.build([run(alive)]).lives[0] == Lives({}, {young: 2}, 0, immortal=3)
    cut = dataset.build([run(alive, exiting=False)]).lives[0]
    assert cut == Lives({}, {young: 2, old: 3}, elders=3)
    both = dataset.build([run(alive), run(alive, exiting=False)]).lives[0]
    assert both == Lives({}, {young: 4, old: 3}, elders=3, immortal=3)


def test_a_context_without_samples_teaches_nothing():
    assert len(dataset.build([run(context("a"), context("b", lifetimes={1: 1}))])) == 1


def test_labels_of_the_synthetic_server_are_what_its_roles_say():
    data = dataset.build([synthetic.profile(contexts=160)])
    roles = {role.frame: role.expected_class for role in synthetic.ROLES}
    for frames, chosen in zip(data.frames, data.classes, strict=True):
        expected = next(roles[name] for name in frames if name in roles)
        assert labels.CLASS_NAMES[chosen] == expected


def test_order_of_profiles_does_not_matter():
    runs = [synthetic.profile(seed=seed, contexts=40) for seed in (1, 2)]
    there, back = dataset.build(runs), dataset.build(runs[::-1])
    assert there.contexts() == back.contexts()
    assert there.classes.tolist() == back.classes.tolist()
    assert there.lives == back.lives


def test_vocabulary_keeps_the_most_common_and_counts_unk():
    words = dataset.vocabulary([["a", "@", "b", "b", "#16"], ["c", "b", "@", "c", "#16"]], size=4)
    assert words == [tokens.UNKNOWN, tokens.SEPARATOR, "b", "c"]


def test_encode_keeps_known_tokens_with_their_depths_and_pads_on_the_right():
    sequences = [["a", "x", "@", "@", "b", "a", "#1024"], ["x", "#48"]]
    encoded = dataset.encode(sequences, ["<unk>", "@", "a", "b"])
    assert encoded.ids.shape == (2, 16)
    assert encoded.ids[:, :4].tolist() == [[2, 3, 2, 0], [0, 0, 0, 0]]
    assert encoded.depths[0, :3].tolist() == [0, 2, 2]
    assert encoded.counts[:, :4].tolist() == [pytest.approx([1, 0.5**0.5, 0.5**0.5, 0]), [0] * 4]
    assert encoded.sizes.tolist() == [20, 11]


@given(st.integers(2, 60), st.integers(0, 9))
def test_split_by_context_is_a_partition_fixed_by_the_seed(count, seed):
    data = dataset.Dataset(
        tuple((f"f{i}",) for i in range(count)),
        (16,) * count,
        (Lives({1: 1}, {}),) * count,
        np.ones(count),
        np.zeros(count, np.int64),
    )
    kept, held = dataset.split_by_context(data, 0.2, seed)
    assert sorted(kept + held) == list(range(count))
    assert kept and held
    assert (kept, held) == dataset.split_by_context(data, 0.2, seed)


def test_another_seed_splits_otherwise():
    data = dataset.build([synthetic.profile(contexts=40)])
    assert dataset.split_by_context(data, 0.2, 0) != dataset.split_by_context(data, 0.2, 1)


def test_a_line_break_in_a_name_does_not_make_two_frames():
    profile = run(context(["a\nb", "c"], lifetimes={1: 1}))
    assert dataset.build([profile]).frames == (("a_b", "c"),)


def test_pick_takes_rows_in_order():
    data = dataset.build([synthetic.profile(contexts=20)])
    some = data.pick([3, 1])
    assert some.contexts() == [data.contexts()[3], data.contexts()[1]]
    assert some.weights.tolist() == [data.weights[3], data.weights[1]]
    assert len(data.pick([])) == 0


def test_the_same_context_twice_in_one_profile_counts_once_with_all_its_weight():
    once = context("a", lifetimes={60: 1})
    data = dataset.build([run(once, replace(once, lifetimes={70: 2}))])
    assert len(data) == 1 and data.weights.tolist() == [20]
    assert Counter(data.lives[0].dead) == {60: 1, 70: 2}


@pytest.mark.parametrize("rule", labels.Rule)
def test_rules_reach_the_labels(rule):
    tail = context("a", lifetimes={60: 999, 130: 1})
    expected = {"tail": "le_10s", "p95": "le_10ms"}[rule]
    assert labels.CLASS_NAMES[dataset.build([run(tail)], rule).classes[0]] == expected

# SPDX-License-Identifier: Apache-2.0
"""Kaplan-Meier against its textbook properties and a naive estimate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamalloc.learning.survival import Lives, survival

COUNTS = st.dictionaries(st.integers(0, 200), st.integers(1, 50), max_size=12)


def test_without_censoring_it_is_the_share_still_alive():
    curve = survival(Lives({10: 50, 20: 30, 30: 20}, {}))
    assert curve.after[[9, 10, 20, 29, 30]] == pytest.approx([1.0, 0.5, 0.2, 0.2, 0.0])
    assert curve.plateau == 0


def test_a_worked_example_with_departures():
    # 10 at risk: 2 die -> 0.8; 4 leave; 4 at risk: 1 dies -> 0.8 * 3/4 = 0.6; 3 leave.
    curve = survival(Lives({10: 2, 30: 1}, {20: 4, 40: 3}))
    assert curve.after[[10, 30]] == pytest.approx([0.8, 0.6])
    assert curve.plateau == pytest.approx(0.6)
    assert curve.last_bucket == 40


def test_immortals_keep_the_plateau():
    assert survival(Lives({10: 75}, {}, immortal=25)).plateau == pytest.approx(0.25)


def test_one_death_among_the_last_few_watched_does_not_empty_the_curve():
    curve = survival(Lives({100: 1}, {50: 9999}))
    assert curve.plateau == 1.0


@given(COUNTS, COUNTS, st.integers(0, 50))
def test_it_never_rises_and_stays_between_zero_and_one(dead, young, immortal):
    if not (dead or young or immortal):
        return
    after = survival(Lives(dead, young, immortal=immortal)).after
    assert np.all(np.diff(after) <= 0)
    assert np.all((after >= 0) & (after <= 1))


@given(COUNTS.filter(bool), st.integers(0, 50))
def test_equals_the_naive_share_without_departures(dead, immortal):
    total = sum(dead.values()) + immortal
    after = survival(Lives(dead, {}, immortal=immortal)).after
    for bucket in range(0, 201, 7):
        alive = total - sum(count for b, count in dead.items() if b <= bucket)
        assert after[bucket] == pytest.approx(alive / total, abs=1e-9)


@given(COUNTS.filter(bool), COUNTS)
def test_departures_never_lower_the_curve_below_counting_them_as_deaths(dead, young):
    both = {b: dead.get(b, 0) + young.get(b, 0) for b in dead.keys() | young.keys()}
    assert np.all(survival(Lives(dead, young)).after >= survival(Lives(both, {})).after - 1e-9)


@given(st.integers(0, 200))
def test_quantile_is_the_first_bucket_below(bucket):
    curve = survival(Lives({bucket: 99, 220: 1}, {}))
    assert curve.quantile_bucket(0.05) == bucket
    assert curve.quantile_bucket(1e-4) == 220
    assert survival(Lives({bucket: 1}, {}, immortal=9)).quantile_bucket(0.05) is None

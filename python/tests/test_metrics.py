# SPDX-License-Identifier: Apache-2.0
"""Scores and baselines on cases small enough to count by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamalloc.learning import baselines, dataset, metrics
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.survival import Lives

CODE = {name: i for i, name in enumerate(CLASS_NAMES)}


def classes(*names):
    return np.array([CODE[name] for name in names])


def test_score_by_hand():
    truth = classes("le_10ms", "le_3s", "never", "mixed")
    chosen = classes("le_10ms", "le_10ms", "gt_1000s", "never")
    score = metrics.score(truth, chosen, np.array([4.0, 3, 2, 1]))
    assert score.weighted == pytest.approx(0.4)
    assert score.unweighted == pytest.approx(0.25)
    assert score.off_by_one == pytest.approx(0.6)
    assert score.page_group == pytest.approx(0.9)
    assert score.coverage == 1.0


def test_confusion_has_the_truth_in_rows():
    matrix = metrics.confusion(classes("never"), classes("mixed"), np.array([3.0]))
    assert matrix[CODE["never"], CODE["mixed"]] == matrix.sum() == 3


def test_mixed_has_no_neighbours():
    assert metrics.is_close(classes("never", "gt_1000s"), classes("mixed", "never")).tolist() == [
        False,
        True,
    ]


def test_nothing_to_score():
    assert metrics.score(np.array([]), np.array([]), np.array([])) is None


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 99)), min_size=1))
def test_a_coarser_question_is_never_harder(rows):
    truth, chosen, weights = (np.array(column) for column in zip(*rows, strict=True))
    score = metrics.score(truth, chosen, weights)
    assert 0 <= score.weighted <= score.page_group <= 1
    assert score.weighted <= score.off_by_one <= 1
    matrix = metrics.confusion(truth, chosen, weights)
    assert matrix.sum() == weights.sum()
    assert np.trace(matrix) / matrix.sum() == pytest.approx(score.weighted)


def labelled(*rows):
    frames, sizes, weights, names = zip(*rows, strict=True)
    return dataset.Dataset(
        tuple(tuple(f) for f in frames),
        sizes,
        (Lives({1: 1}, {}),) * len(rows),
        np.array(weights, float),
        classes(*names),
    )


LEARNED = labelled(
    ("zab", 16, 5, "le_10ms"),
    ("zcd", 16, 2, "never"),
    ("zab", 32, 4, "never"),
    ("q", 16, 1, "mixed"),
)
ASKED = labelled(
    ("zab", 16, 1, "le_10ms"),
    ("zxx", 16, 1, "never"),
    ("zcd", 16, 1, "never"),
    ("k", 8, 1, "never"),
)


def test_the_exact_table_knows_contexts_and_guesses_the_rest():
    chosen, known = baselines.table(LEARNED, baselines.exact_key).predict(ASKED)
    assert known.tolist() == [True, False, True, False]
    assert chosen.tolist() == classes("le_10ms", "never", "never", "never").tolist()


def test_the_site_table_goes_by_the_weight_at_the_innermost_frame():
    chosen, known = baselines.table(LEARNED, baselines.site_key).predict(ASKED)
    assert known.tolist() == [True, True, True, False]
    assert chosen.tolist() == classes("le_10ms", "le_10ms", "le_10ms", "never").tolist()


def test_tables_answer_by_weight_not_by_count_of_contexts():
    data = labelled(("zb", 16, 9, "never"), ("zc", 16, 2, "le_3s"), ("zd", 16, 2, "le_3s"))
    chosen, _ = baselines.table(data, baselines.site_key).predict(data)
    assert chosen.tolist() == classes("never", "never", "never").tolist()

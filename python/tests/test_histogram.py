# SPDX-License-Identifier: Apache-2.0
"""Buckets and their text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamalloc.formats import histogram

HISTOGRAMS = st.dictionaries(
    st.integers(0, histogram.MAX_BUCKET), st.integers(1, 10**9), max_size=30
)


@pytest.mark.parametrize(
    ("nanoseconds", "bucket"),
    [(0, 0), (1, 0), (1.18, 0), (1.19, 1), (2, 4), (1e7, 93), (1e9, 119), (3600e9, 166)],
)
def test_bucket_of(nanoseconds, bucket):
    assert histogram.bucket_of(nanoseconds) == bucket


@given(st.integers(0, histogram.MAX_BUCKET))
def test_the_middle_lies_in_its_bucket(bucket):
    assert histogram.bucket_of(histogram.middle_ns(bucket)) == bucket


@given(HISTOGRAMS)
def test_text_reads_back(counts):
    assert histogram.parse(histogram.render(counts)) == counts


@pytest.mark.parametrize(
    "text", ["1", "1:", ":1", "a:1", "1:a", "2:1 1:1", "1:1 1:1", "256:1", "1:0", "-1:2", "1:-2"]
)
def test_what_the_format_forbids_is_refused(text):
    with pytest.raises(ValueError, match="histogram entry"):
        histogram.parse(text)

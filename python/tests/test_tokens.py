# SPDX-License-Identifier: Apache-2.0
"""The tokeniser against its contract: golden cases, and properties over arbitrary input."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.token_cases import CASES

from llamalloc.formats import contracts, tokens

GOLDEN = json.loads((contracts.folder() / "golden" / "tokens.json").read_text())
NAMES = st.one_of(
    st.text(max_size=40),
    st.text("abAB19_.", max_size=30),
    st.text("abAB019E", max_size=30).map("_Z".__add__),
    st.text("a+0x1", max_size=12).map("?".__add__),
)


def test_golden_covers_every_case_and_is_ascii():
    assert [(case["frames"], case["size"]) for case in GOLDEN] == CASES
    assert (contracts.folder() / "golden" / "tokens.json").read_bytes().isascii()
    assert len(GOLDEN) >= 60


@pytest.mark.parametrize(
    "case", GOLDEN, ids=lambda case: f"{case['frames'][:1]}-{case['size']}"[:60]
)
def test_golden(case):
    assert tokens.tokens(case["frames"], case["size"]) == case["tokens"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lpushGeneric", "lpush generic"),
        ("HTTPServer", "http server"),
        ("?redis-server+0x1a2b0", "?redis-server ?redis-server+0x1a2b0"),
        ("?libstdc++.so.6", "?libstdc++.so.6"),
        ("_ZN3foo10HTTPServer3runEv", "foo http server run"),
        ("_Z01a", "a"),
        ("_Z9abc1x", "x"),
        ("_Z1000000000a1b", "b"),
        ("_Znwm", ""),
    ],
)
def test_clauses_spelled_out_by_hand(name, expected):
    assert list(tokens.frame_tokens(name)) == expected.split()


@given(st.lists(NAMES, max_size=40), st.integers(0, 2**64 - 1))
def test_every_sequence_is_well_formed(frames, size):
    sequence = tokens.tokens(frames, size)
    assert 1 <= len(sequence) <= tokens.MAX_TOKENS
    assert sequence[-1] == f"#{tokens.size_bucket(size)}"
    for token in sequence[:-1]:
        assert re.fullmatch(r"@|[a-z0-9]+|\?[\x21-\x7e]*", token)


@given(NAMES, NAMES, st.integers(0, 2**40))
def test_frames_are_tokenised_one_by_one(first, second, size):
    joined = [*tokens.frame_tokens(first), "@", *tokens.frame_tokens(second)]
    assert tokens.tokens([first, second], size)[:-1] == joined[: tokens.MAX_FRAME_TOKENS]


@given(st.text("abcXYZ019_", min_size=1, max_size=40))
def test_words_lose_nothing_but_case_and_punctuation(identifier):
    assert "".join(tokens.words(identifier)) == identifier.replace("_", "").lower()


@given(st.lists(st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,12}", fullmatch=True), min_size=1, max_size=5))
def test_nested_names_give_the_words_of_their_parts(parts):
    mangled = "_ZN" + "".join(f"{len(part)}{part}" for part in parts) + "Ev"
    assert list(tokens.frame_tokens(mangled)) == [w for part in parts for w in tokens.words(part)]


@given(st.integers(0, 2**62))
def test_size_bucket_covers_the_size_closely_and_is_stable(size):
    bucket = tokens.size_bucket(size)
    assert bucket >= max(size, 1)
    assert tokens.size_bucket(bucket) == bucket
    limit = 16 if size <= 128 else size / 8 + 1 if size <= 32768 else size
    assert bucket - size <= limit


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_size_bucket_is_monotone(a, b):
    low, high = sorted((a, b))
    assert tokens.size_bucket(low) <= tokens.size_bucket(high)

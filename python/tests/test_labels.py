# SPDX-License-Identifier: Apache-2.0
"""Every clause of the rules `tail` and `p95`, as a story of one context."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.label_cases import LabelCase

from llamalloc.formats.histogram import bucket_of
from llamalloc.learning import labels
from llamalloc.learning.survival import Lives

MS, S = 10**6, 10**9
GOLDEN = Path(__file__).resolve().parents[2] / "contracts" / "golden" / "labels.json"


def at(**counts_by_time: int) -> dict[int, int]:
    """`at(ms5=3, s40=1)`: three at 5 ms, one at 40 s."""
    units = {"us": 1000, "ms": MS, "s": S}
    times = {}
    for key, count in counts_by_time.items():
        unit = key.rstrip("0123456789")
        times[bucket_of(units[unit] * int(key[len(unit) :]))] = count
    return dict(sorted(times.items()))


STORIES = {
    "a request's own": (Lives(at(us50=9000, ms2=1000), {}), "le_10ms", "le_10ms"),
    "one in a thousand stays 5 s": (Lives(at(us50=9990, s5=10), {}), "le_10s", "le_10ms"),
    "one in 50,000 stays 5 s": (Lives(at(us50=49999, s5=1), {}), "le_10ms", "le_10ms"),
    "few samples, none long": (Lives(at(ms30=3), {}), "le_100ms", "le_100ms"),
    "in flight at the end, younger": (Lives(at(ms2=900), at(us50=20)), "le_10ms", "le_10ms"),
    "in flight at the end, older": (Lives(at(us50=900), at(ms40=9)), "le_100ms", "le_10ms"),
    "a few of many in flight": (Lives(at(us50=90), at(ms40=9)), "le_100ms", "le_100ms"),
    "stored until exit": (Lives({}, {}, immortal=50), "never", "never"),
    "stored, recording cut": (Lives({}, at(s40=50), elders=50), "never", "never"),
    "stored, 1 in 100 deleted": (Lives(at(s20=1), {}, immortal=99), "never", "never"),
    "most stay, some die young": (Lives(at(us50=40), {}, immortal=60), "never", "never"),
    "most die young, some stay": (Lives(at(us50=60), {}, immortal=40), "mixed", "never"),
    "one in a thousand stays": (Lives(at(us50=9990), {}, immortal=10), "mixed", "le_10ms"),
    "one in 20,000 stays": (Lives(at(us50=19999), {}, immortal=1), "le_10ms", "le_10ms"),
    "elders, recording cut": (Lives(at(us50=990), at(s30=10), elders=10), "mixed", "le_10ms"),
    "sessions, and some stay": (Lives(at(s20=90), {}, immortal=10), "mixed", "never"),
    "dead after an hour": (Lives(at(s3600=500), {}), "gt_1000s", "gt_1000s"),
    "few die after an hour": (Lives(at(ms1=499, s3600=1), {}), "mixed", "le_10ms"),
    "one young survivor, no more": (Lives({}, at(ms1=1)), "never", "never"),
}


@pytest.mark.parametrize("story", STORIES)
def test_story(story):
    lives, tail, p95 = STORIES[story]
    assert labels.CLASS_NAMES[labels.label(lives)] == tail
    assert labels.CLASS_NAMES[labels.label(lives, "p95")] == p95


def test_the_golden_cases_which_the_simulator_reads_too():
    cases = json.loads(GOLDEN.read_text(encoding="ascii"))["cases"]
    assert len(cases) > 200
    for case in cases:
        expected = case.pop("class")
        assert labels.CLASS_NAMES[LabelCase(**case).label] == expected, case


def test_a_coarser_tail_gives_a_shorter_class():
    lives = Lives(at(us50=9990, s5=10), {})
    assert labels.CLASS_NAMES[labels.label(lives, tail=0.01)] == "le_10ms"


@pytest.mark.parametrize(
    ("time_ns", "name"),
    [(9 * MS, "le_10ms"), (12 * MS, "le_100ms"), (3 * S, "le_3s"), (3.6 * S, "le_10s")],
)
def test_class_of_bucket(time_ns, name):
    assert labels.CLASS_NAMES[labels.class_of_bucket(bucket_of(time_ns))] == name


def test_elders_are_older_than_a_second_and_a_fifth_of_the_run():
    assert labels.is_elder(bucket_of(2 * S), 5 * S)
    assert not labels.is_elder(bucket_of(0.5 * S), 1 * S)
    assert not labels.is_elder(bucket_of(10 * S), 60 * S)
    assert labels.is_elder(bucket_of(15 * S), 60 * S)


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="median"):
        labels.label(Lives({1: 1}, {}), "median")


COUNTS = st.dictionaries(st.integers(0, 180), st.integers(1, 9999), min_size=1, max_size=8)


@given(COUNTS)
def test_when_all_have_died_tail_is_never_shorter_than_p95(dead):
    lives = Lives(dead, {})
    by_tail, by_p95 = labels.label(lives), labels.label(lives, "p95")
    assert by_tail == labels.MIXED or by_tail >= by_p95


@given(COUNTS, COUNTS, st.integers(0, 99), st.sampled_from(labels.Rule))
def test_every_context_gets_a_class(dead, young, immortal, rule):
    chosen = labels.label(Lives(dead, young, 0, immortal), rule)
    assert 0 <= chosen < len(labels.CLASS_NAMES)
    assert rule is labels.Rule.TAIL or chosen != labels.MIXED


@given(COUNTS, st.integers(2, 9))
def test_the_class_does_not_depend_on_the_scale(dead, factor):
    scaled = {bucket: factor * count for bucket, count in dead.items()}
    assert labels.label(Lives(dead, {})) == labels.label(Lives(scaled, {}))

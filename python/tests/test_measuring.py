# SPDX-License-Identifier: Apache-2.0
"""The experiment of docs/measuring_memory.md: what it shows here, and what it says it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.measuring import experiment, main
from lab.measuring.experiment import WAYS, ExperimentError, Found, Sample, Step, Way
from llamalloc.running.memory_group import MemoryGroup

MIB = 1 << 20
PAGES = 8


def test_small_pages_leave_rss_and_charge_together():
    found = experiment.run(WAYS[0], PAGES, patience=0.1)
    filled, freed = found.ends
    assert filled.rss > 14 * MIB and freed.rss < 4 * MIB and filled.huge == freed.huge == 0
    if freed.charge is not None:
        assert filled.charge > 14 * MIB and freed.charge < 6 * MIB


def test_what_is_given_back_of_huge_pages_leaves_rss():
    found = experiment.run(WAYS[1], PAGES, patience=0.1)
    filled, freed = found.ends
    assert filled.rss > 14 * MIB and freed.rss < 4 * MIB
    assert freed.charge is None or freed.charge <= filled.charge + 4 * MIB
    assert not found.notes


@pytest.mark.parametrize("way", WAYS[2:], ids=lambda way: way.title)
def test_each_way_keeps_the_bytes_that_stay(way: Way):
    found = experiment.run(way, 2, patience=0)
    assert len(found.ends) == len(found.begins) == len(way.steps)


def test_a_step_that_fails_is_a_note_and_a_holder_that_ends_is_an_error():
    found = experiment.run(Way("w", (Step("fill", "f"), Step("nonsense", "n"))), 1, patience=0)
    assert found.notes == ["nonsense: [Errno 0] no word nonsense"]
    with pytest.raises(ExperimentError, match="w: the process ended"):
        experiment.run(Way("w", ()), 1 << 40, patience=0)


def test_it_says_what_the_system_cannot_show(monkeypatch, tmp_path: Path, capsys):
    monkeypatch.setattr(MemoryGroup, "_create", classmethod(lambda *_: None))
    picture = tmp_path / "deep" / "p.png"
    words = ["--pages", "1", "--patience", "0", "--picture", str(picture)]
    assert main.main(words) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "no memory control group can be made here" in capsys.readouterr().out
    one = Found(WAYS[0], [Sample(0, 9, 0, 9)], [0.0], [Sample(0, 9, 0, 9)])
    (line,) = main.lacks([one])
    assert line.startswith("the kernel gave no huge pages (the setting is ")


def test_nonsense_is_refused(capsys):
    with pytest.raises(SystemExit):
        main.main(["--pages", "0"])
    assert "at least 1" in capsys.readouterr().err

# SPDX-License-Identifier: Apache-2.0
"""What counts as given back, and as late; the table, and what the command says."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from rich.console import Console

from lab.workloads import given_back
from lab.workloads.given_back import Run
from lab.workloads.given_back_watch import Counts, Sample, counts, late
from llamalloc.running.memory_group import MemoryGroup

MIB = 1 << 20


def sample(at: float, sparse: int, charge: int, empty: int = 0) -> Sample:
    return Sample(at, Counts(empty * MIB, sparse * MIB, 0), charge * MIB, charge * MIB)


def test_each_way_is_counted_apart():
    before = {"huge_pages_released": 3, "bytes_broken": 100, "backed": 90 * MIB}
    now = {"huge_pages_released": 5, "bytes_broken": 100 + 7 * MIB, "backed": 60 * MIB}
    assert counts(before, now) == Counts(4 * MIB, 7 * MIB, 19 * MIB)


def test_what_is_backed_anew_is_no_mapping_that_went_back():
    before = {"huge_pages_released": 0, "bytes_broken": 0, "backed": 10 * MIB}
    assert counts(before, before | {"backed": 30 * MIB}).mappings == 0


def test_bytes_that_leave_within_a_second_are_not_late():
    steps = [sample(0.0, 0, 0), sample(0.5, 8, 0), sample(1.4, 8, 8), sample(3.0, 8, 8)]
    assert late(steps, "sparse") == 0


def test_bytes_that_stay_longer_are_late_though_they_leave_in_the_end():
    steps = [sample(0.0, 0, 0), sample(0.5, 8, 0), sample(1.4, 8, 2), sample(1.6, 8, 8)]
    assert late(steps, "sparse") == 6 * MIB


def test_what_another_way_gave_back_hides_nothing():
    steps = [sample(0.0, 0, 0), sample(0.5, 8, 0, empty=8), sample(1.4, 8, 8, empty=8)]
    assert late(steps, "sparse") == 8 * MIB


def test_the_last_second_is_not_judged():
    assert late([sample(0.0, 0, 0), sample(0.5, 8, 0)], "sparse") == 0


def test_more_than_was_counted_does_not_leave():
    steps = [sample(0.0, 0, 0), sample(0.5, 8, 9), sample(2.0, 8, 12)]
    run = given_back.judged(steps, "sparse", 9 * MIB)
    assert (run.counted, run.left, run.share) == (8 * MIB, 8 * MIB, 1.0)


def test_the_table_shows_medians_and_the_worst():
    runs = [Run(110 * MIB, 100 * MIB, left * MIB, 50 * MIB) for left in (99, 90, 97)]
    console = Console(width=160)
    with console.capture() as captured:
        console.print(given_back.table({"sparse": runs}))
    (line,) = [x for x in captured.get().splitlines() if "bytes_broken" in x]
    assert line.split()[-7:] == ["100", "97", "97.0%", "90.0%", "50", "50.0%", "50.0%"]


def test_without_a_group_it_is_one_line(monkeypatch, tmp_path: Path, capsys):
    none = contextlib.nullcontext()
    monkeypatch.setattr(MemoryGroup, "made", lambda name: none)
    library = tmp_path / "l.so"
    library.touch()
    assert given_back.main(["--lib", str(library), "--runs", "1"]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == f"given_back: {given_back.NO_GROUP}" and said.out == ""


def test_an_unknown_kind_and_a_missing_library_are_one_line(capsys):
    assert given_back.main(["--only", "nosuch"]) == 2
    assert "no kind nosuch; there are empty, sparse, mappings" in capsys.readouterr().err
    assert given_back.main(["--lib", "/nosuch.so"]) == 2
    assert "run: make build" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["empty", "mappings"])
def test_json_holds_every_run(kind: str, tmp_path: Path):
    run = Run(9, 8, 8, 7)
    path = tmp_path / "f.json"
    given_back.write(path, {kind: [run, run]})
    assert json.loads(path.read_text())["kinds"][kind][1]["left"] == 8

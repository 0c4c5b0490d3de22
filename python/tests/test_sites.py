# SPDX-License-Identifier: Apache-2.0
"""lab.sites: what two stacks show, verdicts, tables, JSON, and the memory group's files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lab.sites import build, main, plan, rows, table
from lab.sites.process import Figures
from lab.sites.results import MIB, Case, Results, worse
from lab.sites.rows import BLIND, FIRST, SECOND
from lab.sites.ways import VARIANTS, WAYS, Told, chosen


def figures(mib: float, charge: float | None = None, seconds: float = 1.0) -> Figures:
    kept = None if charge is None else round(charge * MIB)
    return Figures(
        live=5 * MIB, rss=round((mib + 3) * MIB), held=round(mib * MIB), regions=20 * MIB,
        charge=kept, fill=seconds, drop=0.0, average=round(mib * MIB), average_live=MIB,
        cpu=seconds,
    )  # fmt: skip


def case(**runs: list[float]) -> Case:
    found = Case("folded", "O2", "full")
    for row, sizes in runs.items():
        for size in sizes:
            found.add(row, figures(size))
    return found


def stack(count: int, *frames: tuple[str, int, int]) -> dict:
    return {"count": count, "frames": [list(frame) for frame in frames]}


def test_stacks_tell_how_deep_they_differ_and_whether_in_one_function():
    main_frame, malloc = ("load", 900, 800), ("load", 15, 10)
    one = build.told([stack(9000, malloc, main_frame), stack(1000, ("load", 20, 10), main_frame)])
    assert one == Told(0, one_function=True, one_call=True)
    deep = build.told(
        [
            stack(9000, malloc, ("load", 110, 100), ("load", 310, 300), main_frame),
            stack(1000, malloc, ("load", 210, 200), ("load", 320, 300), main_frame),
            stack(3, ("libc.so.6", 5, 1)),
        ]
    )
    assert deep == Told(1)


def test_equal_stacks_and_too_many_are_no_way():
    with pytest.raises(ValueError, match="do not differ"):
        build.told([stack(1000, ("load", 1, 0)), stack(1000, ("load", 1, 0), ("load", 9, 8))])
    with pytest.raises(ValueError, match="3 stacks allocate often"):
        build.told([stack(1000, ("load", n, 0)) for n in range(3)])


def test_the_verdict_is_on_the_median_and_the_worst_of_the_second_run():
    assert case(blind=[1000]).verdict() == ""
    assert case(second=[9, 10, 16]).verdict() == "reached"
    assert case(second=[9, 10, 17]).verdict() == "worst too high"
    assert case(second=[9, 11, 11]).verdict() == "missed"


def test_the_larger_of_rss_and_charge_counts():
    assert figures(5, charge=7).judged == 7 * MIB
    assert figures(5, charge=3).judged == figures(5).judged == 5 * MIB


def test_a_guarded_load_is_worse_beyond_its_limits():
    one = Case("cache")
    one.add(BLIND, figures(100))
    one.add(FIRST, figures(102, seconds=1.04))
    one.add(SECOND, figures(104, seconds=1.06))
    assert worse(one, FIRST) == []
    assert worse(one, SECOND) == [
        "average memory",
        "average / live",
        "after the drop",
        "seconds",
        "CPU",
    ]
    assert worse(Case("empty"), SECOND) == []


def results() -> Results:
    guarded = Case("random eviction")
    for row, size in ((BLIND, 100), (FIRST, 101), (SECOND, 150)):
        guarded.add(row, figures(size))
    cases = [case(blind=[1048], first=[40, 60], second=[9, 10]), case(blind=[1], second=[99])]
    return Results({"cpu": "2"}, [BLIND, FIRST, SECOND], "", cases, [guarded], ["no gold"])


def test_all_goals_must_be_reached():
    found = results()
    assert not found.is_reached()
    found.cases.pop()
    assert not found.is_reached()
    found.guarded.pop()
    assert found.is_reached()
    found.cases[0].failed = "it ended with -11"
    assert not found.is_reached()
    assert found.faults() == ["folded, O2, full: it ended with -11"]


def shown(view) -> str:
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(view)
    return console.export_text()


def test_tables_show_median_worst_and_verdict():
    found = results()
    found.floor = figures(8, charge=6)
    text = shown(table.ways(found))
    assert "the survivors alone, blind: 8.0 (RSS 11.0, 2 MiB regions 20.0, charge 6.0)" in text
    assert "1,048 (1,048)" in text and "50.0 (60.0)" in text and "9.5 (10.0)" in text
    assert "reached" in text and "missed" in text
    guarded = shown(table.guarded(results()))
    assert "1.01" in guarded and "not worse" in guarded
    assert "worse: average memory, average / live, after the drop" in guarded


def test_json_holds_every_run_and_what_follows(tmp_path: Path):
    results().write(tmp_path / "deep" / "results.json")
    read = json.loads((tmp_path / "deep" / "results.json").read_text())
    first, second = read["cases"]
    assert (first["verdict"], second["verdict"]) == ("reached", "missed")
    assert first["median"]["first"] == 50 * MIB and first["worst"]["first"] == 60 * MIB
    assert len(first["runs"]["second"]) == 2 and read["missing"] == ["no gold"]
    assert read["guarded"][0]["worse"] == {
        "first": [],
        "second": ["average memory", "average / live", "after the drop"],
    }


def test_names_are_checked_and_kept_in_order(capsys):
    assert [w.name for w in chosen("wrapper,folded", WAYS)] == ["folded", "wrapper"]
    assert chosen("", VARIANTS) == list(VARIANTS)
    assert main.main(["--ways", "nosuch"]) == 2
    assert "no nosuch; there are one_function," in capsys.readouterr().err
    with pytest.raises(ValueError, match="no peer nosuch; there are glibc"):
        rows.chosen("nosuch")


def test_what_a_system_lacks_is_a_line_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    build.folding_linker.cache_clear()
    found = Results({}, [BLIND])
    options = main.arguments(["--ways", "folded", "--guards", "none"])
    assert plan.steps(options, found) == []
    assert found.missing == [
        "no linker that folds functions; install: apt-get install binutils, or lld"
    ]
    build.folding_linker.cache_clear()

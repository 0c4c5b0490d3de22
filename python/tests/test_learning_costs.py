# SPDX-License-Identifier: Apache-2.0
"""lab.learning: its loads, what a program's run becomes, its table and its verdict."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from lab.learning import loads, main, table
from lab.sites.build import LackError
from lab.sites.process import Figures, RunError
from lab.sites.results import MIB, Case, Results
from lab.sites.rows import BLIND, FIRST, SECOND, Runner
from lab.workloads import programs, runner
from lab.workloads.runner import Outcome


def figures(mib: float, seconds: float = 1.0, samples: int = 0, said: str = "") -> Figures:
    size = round(mib * MIB)
    return Figures(
        live=0, rss=size, regions=0, charge=size, fill=seconds, drop=0.0, average=size,
        average_charge=size, cpu=seconds,
        statistics={"stats": {"samples": samples}, "segregation": said},
    )  # fmt: skip


def results(**runs: Figures) -> Results:
    case = Case("waves", runs={row: [found] for row, found in runs.items()})
    return Results({}, [BLIND, FIRST, SECOND], guarded=[case])


def printed(found: Results) -> str:
    out = io.StringIO()
    Console(file=out, width=250).print(table.costs(found))
    return out.getvalue()


def test_the_loads_are_caches_and_programs():
    names = [load.name for load in loads.all_loads()]
    assert {"random-eviction", "python-cache", "ruby-cache", "waves", "mariadb"} <= set(names)
    assert [load.name for load in loads.chosen("mariadb,waves")] == ["waves", "mariadb"]
    with pytest.raises(ValueError, match="no load tea; there are random-eviction"):
        loads.chosen("tea")


def test_a_program_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(programs.find("mariadb"), "programs", ("no-such-program",))
    (load,) = loads.chosen("mariadb")
    with pytest.raises(LackError, match="no-such-program"):
        load.make(1.0)


def test_a_program_runs_with_the_options_of_its_row(monkeypatch, tmp_path):
    asked = []

    def run(recipe, options, say):
        asked.append((recipe.name, options.conf, options.scale))
        statistics = next(w for w in options.conf.split(",") if w.startswith("stats:"))[6:]
        Path(statistics).write_text(json.dumps({"stats": {"samples": 7}, "segregation": ""}))
        return Outcome("waves", seconds=3.0, cpu=2.0, rss=MIB, charge=2 * MIB, charges=[(0, MIB)])

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(programs.find("waves"), "programs", ())
    (load,) = loads.chosen("waves")
    made = load.make(0.5)
    rows = Runner(tmp_path / "lib.so", "", 0.0, tmp_path)
    for row in (BLIND, FIRST, SECOND):
        found = made(rows, row)
        assert (found.judged, found.mean, found.seconds, found.cpu) == (2 * MIB, MIB, 3.0, 2.0)
        assert found.statistics["stats"]["samples"] == 7
        if row == FIRST:
            (tmp_path / FIRST / "waves.learned").write_text("known")
    assert asked[0] == ("waves", f"stats:{tmp_path}/blind.json", 0.5)
    assert asked[1][1] == f"learn:{tmp_path}/first,stats:{tmp_path}/first.json"
    assert asked[2][1] == f"learn:{tmp_path}/second,stats:{tmp_path}/second.json"
    assert (tmp_path / SECOND / "waves.learned").read_text() == "known"


def test_the_table_says_what_is_worse():
    on = "placement by lifetime is on trial: it may help"
    found = results(blind=figures(100), first=figures(102, 1.04), second=figures(104, 1, 9, on))
    first, second = [line for line in printed(found).splitlines() if line.startswith(" waves")]
    assert "1.020 (1.020)" in first and "not worse" in first and "0 of 1" in first
    assert "1.040 (1.040)" in second and "1 of 1" in second
    assert "worse: average memory, after the drop" in second
    assert not found.is_reached()
    assert results(blind=figures(100), first=figures(99), second=figures(98)).is_reached()


def test_a_run_that_fails_is_named(monkeypatch, tmp_path, capsys):
    def fail(rows, row):
        raise RunError("it ended with 1")

    load = loads.Load("tea", lambda scale: fail)
    monkeypatch.setattr(loads, "chosen", lambda names: [load])
    library = tmp_path / "lib.so"
    library.touch()
    assert main.main(["--lib", str(library), "--out", str(tmp_path)]) == 1
    assert "FAULT tea: it ended with 1" in capsys.readouterr().out


def test_what_cannot_be_measured_is_refused(tmp_path, capsys):
    assert main.main(["--lib", str(tmp_path / "none.so")]) == 2
    assert "is not there" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main.main(["--runs", "0"])

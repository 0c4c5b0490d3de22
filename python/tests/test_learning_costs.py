# SPDX-License-Identifier: Apache-2.0
"""lab.learning: its loads, what a program's run becomes, its table and its verdict."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lab.launcher import clean_environment, with_preload
from lab.learning import loads, main, table
from lab.live_watch import LiveWatch
from lab.places import LIBRARY
from lab.sites.build import LackError
from lab.sites.process import Figures, RunError
from lab.sites.results import MIB, Case, Results, worse
from lab.sites.rows import BLIND, FIRST, LEARNED, SECOND, Runner
from lab.workloads import programs, runner
from lab.workloads.runner import Outcome

SERVERS = [
    *("jsonapi", "orm", "batchidx", "ordermatch", "tsdb", "chat", "templ", "graph", "interp"),
    *("webfront", "gameworld", "buildd", "logpipe", "mvcc", "broker", "sheet", "colstore"),
]


def figures(mib: float, seconds: float = 1.0, samples: int = 0, said: str = "") -> Figures:
    size = round(mib * MIB)
    return Figures(
        live=0, rss=size, held=size, regions=0, charge=size, fill=seconds, drop=0.0, average=size,
        average_charge=size, peak_charge=2 * size, average_live=MIB, cpu=seconds,
        statistics={"stats": {"samples": samples}, "segregation": said},
    )  # fmt: skip


def results(**runs: Figures) -> Results:
    case = Case("waves", runs={row: [found] for row, found in runs.items()})
    return Results({}, list(dict.fromkeys([BLIND, FIRST, SECOND, *runs])), guarded=[case])


def printed(found: Results) -> str:
    out = io.StringIO()
    Console(file=out, width=300).print(table.costs(found))
    return out.getvalue()


def test_the_loads_are_caches_and_programs():
    names = [load.name for load in loads.all_loads()]
    assert {"random-eviction", "python-cache", "ruby-cache", "waves", "mariadb"} <= set(names)
    assert [load.name for load in loads.chosen("mariadb,waves")] == ["waves", "mariadb"]
    with pytest.raises(ValueError, match=r"no load tea; there are random-eviction.*, servers$"):
        loads.chosen("tea")


def test_the_servers_are_measured_where_they_are_asked_for():
    servers = [f"server-{name}" for name in SERVERS]
    names = [load.name for load in loads.all_loads()]
    assert names[-len(servers) :] == servers
    assert not {load.name for load in loads.chosen("")} & set(servers)
    assert [load.name for load in loads.chosen("")] == names[: -len(servers)]
    assert [load.name for load in loads.chosen("servers")] == servers
    both = [load.name for load in loads.chosen("server-tsdb,waves")]
    assert both == ["waves", "server-tsdb"]
    assert [load.name for load in loads.chosen("servers,waves")] == ["waves", *servers]


def test_a_program_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(programs.find("mariadb"), "programs", ("no-such-program",))
    (load,) = loads.chosen("mariadb")
    with pytest.raises(LackError, match="no-such-program"):
        load.make(1.0, 1)


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
    made = load.make(0.5, 1)
    rows = Runner(tmp_path / "lib.so", "", 0.0, tmp_path)
    for row in (BLIND, FIRST, SECOND):
        found = made(rows, row)
        assert (found.mean, found.seconds, found.cpu) == (MIB, 3.0, 2.0)
        assert (found.judged, found.charge) == (0, 0)  # it ends by itself: there is no drop
        assert found.statistics["stats"]["samples"] == 7
        if row == FIRST:
            (tmp_path / FIRST / "waves.learned").write_text("known")
    assert asked[0] == ("waves", f"stats:{tmp_path}/blind.json", 0.5)
    assert asked[1][1] == f"learn:{tmp_path}/first,stats:{tmp_path}/first.json"
    assert asked[2][1] == f"learn:{tmp_path}/second,stats:{tmp_path}/second.json"
    assert (tmp_path / SECOND / "waves.learned").read_text() == "known"


def test_a_server_runs_by_its_seed_and_is_measured_at_its_quiet_end(monkeypatch, tmp_path):
    seeds, line = [], "chat ops=7 check=00000000000000ff"
    charges = [(0.0, 9 * MIB), (4.4, 9 * MIB), (5.0, 2 * MIB), (5.7, 4 * MIB), (5.9, MIB)]

    def run(recipe, options, say):
        seeds.append((recipe.name, options.seed))
        words = dict(word.split(":") for word in options.conf.split(","))
        Path(words["stats"]).write_text(json.dumps({"stats": {}, "segregation": ""}))
        if "learn" in words:
            with (Path(words["learn"]) / "state").open("a") as state:
                state.write(f"{Path(words['learn']).name} ")
        rss = [(at, 5 * MIB) for at, _ in charges]
        return Outcome("chat", charge=MIB, charges=charges, series=rss, result=line, result_at=3.0)

    monkeypatch.setattr(runner, "run", run)
    (load,) = loads.chosen("server-chat")
    made, rows = load.make(1.0, 11), Runner(tmp_path / "lib.so", "", 0.0, tmp_path)
    for row in (BLIND, *LEARNED[:3]):
        found = made(rows, row)
        assert (found.charge, found.rss, found.result) == (3 * MIB, 5 * MIB, line)
    assert seeds == [("server-chat", 11)] * 4
    assert (tmp_path / "third" / "state").read_text() == "first second third "
    silent = Outcome("chat", charge=MIB, charges=charges)
    assert loads.figures(silent, drops=False).judged == 0


@pytest.mark.parametrize(
    ("drops", "charge", "judged"), [(True, 2, 2), (True, None, 1), (False, 2, 0)]
)
def test_what_is_charged_after_the_drop(drops, charge, judged):
    charge = None if charge is None else charge * MIB
    found = loads.figures(Outcome("tea", rss=MIB, charge=charge), drops)
    assert found.judged == judged * MIB and (found.charge is None) == (charge is None)


def test_without_a_drop_nothing_is_worse_after_it():
    none, some = replace(figures(100), held=0, charge=0), replace(figures(100), held=9, charge=9)
    found = results(blind=none, first=none, second=some)
    assert printed(found).count(" - ") == 2 and found.is_reached()


def test_memory_is_compared_by_what_was_live():
    blind, first = figures(100), replace(figures(104), average_live=round(1.05 * MIB))
    line = printed(results(blind=blind, first=first, second=blind)).splitlines()
    assert any("1.050 (1.050)" in text and "0.990 (0.990)" in text for text in line)
    assert first.mean_over_live < blind.mean_over_live
    assert replace(first, average_live=0).mean_over_live == 0  # another allocator
    assert "average memory" not in worse(results(blind=blind, first=first).guarded[0], FIRST)
    shorter = replace(figures(101), average_live=round(0.95 * MIB))
    assert worse(results(blind=blind, first=shorter).guarded[0], FIRST) == []
    unknown = [replace(found, average_live=0) for found in (blind, first)]
    (case,) = results(blind=unknown[0], first=unknown[1]).guarded
    assert "average memory" in worse(case, FIRST)


def test_what_a_program_holds_is_read_from_outside():
    program = "import time; kept = bytearray(40 << 20); time.sleep(60)"
    environment = with_preload(clean_environment(), str(LIBRARY))
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
        watch = LiveWatch(lambda: process.pid)
        with watch:
            deadline = time.monotonic() + 30
            while watch.average() < 20 << 20 and time.monotonic() < deadline:
                time.sleep(0.05)
        process.kill()
    assert 20 << 20 <= watch.average() <= watch.most() <= 80 << 20
    with LiveWatch(os.getpid) as watch:  # not under llamalloc
        time.sleep(0.3)
    assert watch.average() == watch.most() == 0


def test_the_table_says_what_is_worse():
    on = "placement by lifetime is on trial: it may help"
    found = results(blind=figures(100), first=figures(102, 1.04), second=figures(104, 1, 9, on))
    first, second = [line for line in printed(found).splitlines() if line.startswith(" waves")]
    assert "1.020 (1.020)" in first and "not worse" in first and "0 of 1" in first
    assert "1.040 (1.040)" in second and "1 of 1" in second
    assert "worse: average memory, average / live, after the drop" in second
    assert not found.is_reached()
    assert results(blind=figures(100), first=figures(99), second=figures(98)).is_reached()


def test_the_table_has_each_run_that_learned_and_the_peak():
    found = results(blind=figures(100), first=figures(100), second=figures(100), third=figures(90))
    third = replace(found.guarded[0].runs["third"][0], peak_charge=250 * MIB)
    found.guarded[0].add("third", third)
    lines = [line.split() for line in printed(found).splitlines() if line.startswith(" waves")]
    assert [line[2] for line in lines] == ["first", "second", "third"]
    assert lines[2][3:7] == ["1.000", "(1.000)", "1.075", "(1.250)"]
    assert found.is_reached()
    found.guarded[0].runs["third"] = [figures(104)]
    assert not found.is_reached()
    assert found.document()["guarded"][0]["worse"]["third"][0] == "average memory"


def test_a_guard_learns_in_its_later_runs_too(monkeypatch, tmp_path):
    confs = []

    def run(command, environment, settle):
        confs.append(environment["LLAMALLOC_CONF"].split(",")[0])
        (tmp_path / f"{LEARNED[len(confs) - 1]}.json").write_text("{}")
        return figures(1)

    (tmp_path / "lib.so").touch()
    monkeypatch.setattr("lab.sites.process.run", run)
    rows = Runner(tmp_path / "lib.so", "", 0.0, tmp_path)
    for row in LEARNED[:4]:
        assert rows.run(row, ["cache"], {}).statistics == {}
    assert confs == [f"learn:{tmp_path / row}" for row in LEARNED[:4]]


def measured(monkeypatch, folder: Path, said: dict[str, str], *words: str) -> tuple[int, dict]:
    """The command on one load whose rows say that; its exit status and the runs of the load."""

    def run(rows, row):
        order.append(row)
        seconds = 1 + 0.04 * len(order)  # as on a machine that becomes slower
        return replace(figures(100, seconds), result=said.get(row, "tea ops=1"))

    order: list[str] = []

    monkeypatch.setattr(loads, "chosen", lambda names: [loads.Load("tea", lambda *size: run)])
    (folder / "lib.so").touch()
    status = main.main(["--lib", str(folder / "lib.so"), "--out", str(folder), *words])
    return status, json.loads((folder / "results.json").read_text())["guarded"][0]["runs"]


def test_more_runs_follow_where_asked_for(monkeypatch, tmp_path, capsys):
    status, runs = measured(monkeypatch, tmp_path, {}, "--runs", "2")
    assert status == 0 and list(runs) == [BLIND, *LEARNED[:2]]
    status, runs = measured(monkeypatch, tmp_path, {}, "--runs", "2", "--more-runs", "2")
    assert status == 0 and list(runs) == [BLIND, *LEARNED[:4]]
    assert [len(found) for found in runs.values()] == [4, 2, 2, 2, 2]
    for number in ("-1", "5"):
        with pytest.raises(SystemExit):
            main.arguments(["--more-runs", number])
    assert "--more-runs must be 0 to 4" in capsys.readouterr().err


def test_a_machine_that_becomes_slower_is_not_laid_to_learning(monkeypatch, tmp_path):
    status, runs = measured(monkeypatch, tmp_path, {}, "--runs", "1", "--more-runs", "1")
    seconds = {row: [round(found["cpu"], 2) for found in of] for row, of in runs.items()}
    assert seconds == {BLIND: [1.04, 1.2], FIRST: [1.08], SECOND: [1.12], "third": [1.16]}
    assert status == 0, "the third is 1.12 times as slow as the first of the blind ones"


def test_a_run_that_computes_something_else_is_a_fault(monkeypatch, tmp_path, capsys):
    status, runs = measured(monkeypatch, tmp_path, {SECOND: "tea ops=2"}, "--more-runs", "1")
    assert status == 1 and list(runs) == [BLIND, FIRST, SECOND]
    fault = "FAULT tea: the second run said 'tea ops=2', the blind run 'tea ops=1'"
    assert fault in capsys.readouterr().out


def test_a_run_that_fails_is_named(monkeypatch, tmp_path, capsys):
    def fail(rows, row):
        raise RunError("it ended with 1")

    load = loads.Load("tea", lambda scale, seed: fail)
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

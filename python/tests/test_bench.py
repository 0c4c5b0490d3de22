# SPDX-License-Identifier: Apache-2.0
"""The benchmark's logic: statistics, ratios, JSON, table, page, missing peers. No times."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from lab import allocators, peers
from lab.allocators import OURS, Allocator
from lab.bench import instructions, main, page, programs, rows
from lab.bench.results import Line, Results, cell
from lab.bench.rows import Row
from lab.bench.table import cells, ratio_text, table, value_text
from lab.places import ROOT
from llamalloc.running import launch
from llamalloc.running.memory_figures import Memory, Sizes

PAIR = Row("pair_64", "malloc and free")
IDLE = Row("threads_500", "threads")
RATE = Row("redis", "requests", "requests_per_second", "/s", higher=True, program=True)
COLUMNS = [Allocator(n, f"{n}.so", "1", "shared") for n in (OURS, "jemalloc-5.3.0", "snmalloc")]


def results() -> Results:
    found = Results({"cpu": "2 cores"}, COLUMNS, [PAIR, IDLE, RATE], missing=["tcmalloc is out"])
    for column, base in zip(COLUMNS, (4.0, 10.0, 5.0), strict=True):
        for noise in (0.0, 1.0, -1.0):
            found.add(PAIR, column, {"ns": base + noise, "cpu_ns": base})
        memory = {"bytes_per_thread_later": base * 1024, "charge_per_thread_later": base * 512}
        found.add(IDLE, column, {"ns": 1.0} | memory)
        memory = Memory(Sizes(1 << 18, 1 << 19, 1 << 20), Sizes(1 << 19, 1 << 20, 1 << 21), 1 << 20)
        found.add(RATE, column, {"requests_per_second": base * 1000} | memory.figures())
    return found


def test_cell_has_median_ends_and_spread():
    found = cell("x", [9.0, 1.0, 2.0, 3.0, 4.0])
    assert (found.median, found.least, found.most, found.samples) == (3.0, 1.0, 9.0, 5)
    assert found.spread == pytest.approx((4.0 - 2.0) / 3.0)


def test_one_sample_has_no_spread_and_zero_does_not_divide():
    assert cell("x", [2.0]).spread == 0
    assert cell("x", [0.0, 0.0]).spread == 0


def test_ratio_is_beside_the_best_peer_and_less_is_better():
    by_name = {line.row.name: line for line in results().lines()}
    assert by_name["pair_64"].best_peer().allocator == "snmalloc"
    assert by_name["pair_64"].ratio() == pytest.approx(0.8)
    # Rates: the best peer has most, and its 10,000/s are 2.5 of our 4,000/s.
    assert by_name["redis"].best_peer().allocator == "jemalloc-5.3.0"
    assert by_name["redis"].ratio() == pytest.approx(2.5)


def test_no_ratio_without_ours_or_without_a_peer_or_of_nothing():
    assert Line(PAIR, [cell("glibc", [1.0])]).ratio() is None
    assert Line(PAIR, [cell(OURS, [1.0])]).ratio() is None
    assert Line(PAIR, [cell(OURS, [1.0]), cell("glibc", [0.0])]).ratio() is None


def test_memory_figures_become_rows_of_their_own():
    found = results()
    by_name = {line.row.name: line for line in found.lines()}
    assert [c.median for c in by_name["threads_500: memory"].cells] == [4096, 10240, 5120]
    assert [c.median for c in by_name["threads_500: charge"].cells] == [2048, 5120, 2560]
    ends = {n.partition(": ")[2]: line for n, line in by_name.items() if "redis: " in n}
    assert {end: [c.median for c in line.cells] for end, line in ends.items()} == {
        "charge": [2**19] * 3, "average charge": [2**20] * 3, "peak charge": [2**21] * 3,
        "peak / live": [2.0] * 3,
        "RSS": [2**18] * 3, "average RSS": [2**19] * 3, "peak RSS": [2**20] * 3,
    }  # fmt: skip
    assert found.is_charged()
    for samples in found.samples["redis"].values():
        for sample in samples:
            del sample["average_charge"]
    assert not found.is_charged()


def test_what_was_live_on_ours_divides_the_peaks_of_all():
    clang = Row("clang", "clang", "cpu_s", "s", program=True)
    found = Results({}, COLUMNS, [clang])
    for column, peak in zip(COLUMNS, (100.0, 150.0, 400.0), strict=True):
        live = {programs.MOST_LIVE: 80.0, "over_live": 1.25} if column.name == OURS else {}
        found.add(clang, column, {"cpu_s": 1.0, "peak_charge": peak, "peak_rss": 7.0} | live)
    by_name = {line.row.name: line for line in found.lines()}
    assert [c.median for c in by_name["clang: peak / live"].cells] == [1.25, 1.875, 5.0]
    del found.samples["clang"]["snmalloc"][0]["peak_charge"]
    assert found._cells(clang, "over_live")[2].median == 7 / 80
    del found.samples["clang"][OURS]
    assert found._cells(clang, "over_live") == []


def test_cpu_clock_takes_the_other_figure():
    found = results()
    found.clock = "cpu_ns"
    assert [c.spread for c in found.lines()[0].cells] == [0, 0, 0]


def test_json_holds_what_was_measured_on_what(tmp_path: Path):
    path = tmp_path / "deep" / "results.json"
    results().write(path)
    read = json.loads(path.read_text())
    assert read["format"] == 1
    assert read["machine"] == {"cpu": "2 cores"}
    assert [a["version"] for a in read["allocators"]] == ["1", "1", "1"]
    assert read["missing"] == ["tcmalloc is out"]
    assert read["lines"][0]["ratio"] == pytest.approx(0.8)
    assert read["lines"][0]["best_peer"] == "snmalloc"
    assert len(read["samples"]["pair_64"][OURS]) == 3


def test_table_shows_a_column_for_each_and_a_dash_where_nothing_was_measured():
    found = results()
    del found.samples["pair_64"]["snmalloc"]
    console = Console(width=160, record=True, quiet=True)
    console.print(table(found))
    shown = console.export_text() or ""
    line = found.lines()[0]
    assert cells(line, [c.name for c in COLUMNS])[2] == "-"
    assert ratio_text(line) == "0.40 jemalloc-5.3.0"
    assert [c.header for c in table(found).columns][1:4] == [c.name for c in COLUMNS]
    assert shown == "" or "pair_64" in shown


def test_units_are_short():
    assert value_text(3.456, "ns") == "3.46"
    assert value_text(2500, "ns") == "2.5 us"
    assert value_text(1.125, "x") == "1.12 x"
    assert value_text(36 << 10, "B") == "36 KiB"


def test_page_names_versions_and_what_is_missing(tmp_path: Path):
    page.write(results(), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "tcmalloc is out" in text
    assert "in 11 of 12 rows" in text  # redis is behind, and equal memory counts as equal
    assert "Live: what Redis counts itself" in text
    assert "data:image/png;base64" in text


def test_missing_peer_is_a_line_and_the_others_go_on(tmp_path: Path):
    library = tmp_path / "libllamalloc.so"
    library.touch()
    found, missing = allocators.present(
        [OURS, "glibc", "snmalloc"], library, {"snmalloc": "cargo is not installed"}
    )
    assert [a.name for a in found] == [OURS, "glibc"]
    assert missing == ["snmalloc is left out: cargo is not installed"]


def test_the_catalogue_has_each_peer_once_and_setup_installs_it():
    names = [name for e in allocators.CATALOGUE for name in {e.name, e.short} if name]
    assert len(set(names)) == len(names)
    assert allocators.chosen(["jemalloc", OURS]) == [OURS, "jemalloc-5.3.0"]
    table = (ROOT / "scripts" / "setup.sh").read_text()
    for entry in allocators.CATALOGUE:
        assert bool(entry.soname) != bool(entry.peer), entry.name
        assert not entry.package or entry.name == "glibc" or f"bench|{entry.package}|" in table


def test_only_the_peer_that_needs_tunables_gets_them(monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    plain = Allocator("glibc", "libc.so.6", "1", "shared").environment()
    assert plain["LD_PRELOAD"] == "libc.so.6"
    assert "GLIBC_TUNABLES" not in plain
    tuned = Allocator("tcmalloc", "x.so", "1", "shared", "a=0").environment()
    assert tuned["GLIBC_TUNABLES"] == "a=0"


def test_own_library_missing_is_an_error_with_its_cure(tmp_path: Path):
    with pytest.raises(ValueError, match="make build"):
        allocators.present([OURS], tmp_path / "none.so", {})


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="no allocator dlmalloc; there are llamalloc, glibc"):
        allocators.chosen(["dlmalloc"])
    with pytest.raises(ValueError, match="no row pear_64"):
        rows.chosen(["pear_64"], [PAIR, RATE])


def test_kinds_stand_for_their_rows():
    assert rows.chosen(["programs"], [PAIR, RATE]) == [RATE]
    assert rows.chosen(["micro"], [PAIR, RATE]) == [PAIR]
    assert rows.chosen([], [PAIR, RATE]) == [PAIR, RATE]


def test_each_round_begins_with_another_allocator():
    firsts = [main._turned(COLUMNS, turn)[0].name for turn in (1, 2, 3, 4)]
    assert firsts == [OURS, "jemalloc-5.3.0", "snmalloc", OURS]
    assert sorted(a.name for a in main._turned(COLUMNS, 2)) == sorted(a.name for a in COLUMNS)


def test_a_failed_command_of_a_peer_says_which_and_why():
    with pytest.raises(peers.PeerError, match="no-such-compiler is not installed"):
        peers.run("no-such-compiler")
    with pytest.raises(peers.PeerError, match=r"sh failed: x\.cc: error: broken"):
        peers.run("sh", "-c", "echo 'x.cc: error: broken' >&2; echo done >&2; exit 1")


def test_a_peer_is_built_anew_when_the_pinned_sources_change(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(peers, "OUT", tmp_path)
    peer, lock = peers.PEERS[0], tmp_path / "Cargo.lock"
    lock.write_text("one")
    assert not peers.ready(peer, peers.pinned(lock))
    peer.library.touch()
    peer.note.write_text(json.dumps({"pinned": peers.pinned(lock)}))
    assert peers.ready(peer, peers.pinned(lock))
    lock.write_text("two")
    assert not peers.ready(peer, peers.pinned(lock))


def test_a_program_that_fails_or_lacks_is_named():
    with pytest.raises(programs.ProgramError, match="false ended with 1"):
        programs._timed(("false",), {"LD_PRELOAD": ""})
    figures = programs._timed(("true",), {"LD_PRELOAD": ""})
    assert {"wall_s", "cpu_s", "peak_rss"} <= set(figures)


def test_what_was_seen_is_no_more_than_the_peak(monkeypatch):
    watched = programs._watched

    def more(*args):
        out, err, memory = watched(*args)
        return out, err, memory | {"peak_rss": 1 << 40}

    assert programs._timed(("true",), {"LD_PRELOAD": ""})["peak_rss"] < 1 << 30
    monkeypatch.setattr(programs, "_watched", more)
    assert programs._timed(("true",), {"LD_PRELOAD": ""})["peak_rss"] == 1 << 40


def test_a_program_is_charged_where_it_has_a_group(monkeypatch):
    code = "import time; x = bytearray(64 << 20); time.sleep(.3)"
    holds = ("/usr/bin/python3", "-S", "-c", code)
    with programs.MemoryGroup.made("test") as group:
        if group is None:
            pytest.skip("no memory control group can be made here")
    figures = programs._timed(holds, {"LD_PRELOAD": ""})
    assert 64 << 20 <= figures["peak_charge"] < 120 << 20
    assert 0 < figures["average_charge"] <= figures["peak_charge"]
    assert 0 < figures["average_rss"] <= figures["peak_rss"]
    assert figures["peak_rss"] > 64 << 20
    assert not {"charge", "rss", "over_live"} & set(figures)
    monkeypatch.setattr(programs.MemoryGroup, "_create", classmethod(lambda *_: None))
    alone = programs._timed(holds, {"LD_PRELOAD": ""})
    assert "peak_charge" not in alone and alone["average_rss"] > 8 << 20


def test_what_is_live_in_a_program_on_llamalloc_is_counted():
    library = {"LD_PRELOAD": str(launch.find_library())}
    code = "import time; x = bytearray(64 << 20); time.sleep(.5)"
    holds = ("/usr/bin/python3", "-S", "-c", code)
    figures = programs._timed(holds, library, ours=True)
    assert 64 << 20 <= figures[programs.MOST_LIVE] < 80 << 20
    assert 0.8 < figures["over_live"] < 1.6


def test_a_timer_that_has_no_program_yet_is_not_measured():
    with pytest.raises(ProcessLookupError):
        programs._program_of(0)


CALLGRIND = """events: Ir
fn=(1) bench_malloc
10 30
cfn=(2) malloc
calls={calls} 0
10 {cost}
fn=(2)
20 999
cfn=(3) bench_free
calls=7 0
20 70
fn=(3)
5 1
cfn=(4) free
calls={calls} 0
5 {cost}
"""


def test_callgrind_costs_are_of_what_the_harness_called():
    found = instructions.inclusive(CALLGRIND.format(calls=10, cost=250))
    assert found == {"bench_malloc": (10, 250), "bench_free": (10, 250)}


def test_steady_state_is_the_difference_of_two_runs():
    calls = instructions.PATTERNS["pair"]
    short = {f"bench_{call}": (10, 1250) for call in calls}
    long = {f"bench_{call}": (30, 1750) for call in calls}
    assert instructions.steady(short, long, calls) == dict.fromkeys(calls, 25.0)
    assert instructions.least([long, long | {"bench_free": (1, 9)}])["bench_free"] == (1, 9)
    with pytest.raises(instructions.CountError, match="no calls from bench_malloc"):
        instructions.steady({}, {}, calls)


def test_the_script_that_documents_name_starts():
    done = subprocess.run(
        [ROOT / "bench" / "instructions", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "bench/instructions" in done.stdout

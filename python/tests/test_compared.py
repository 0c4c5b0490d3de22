# SPDX-License-Identifier: Apache-2.0
"""The load programs on allocators: what they measure, their tables, and what they say."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lab.allocators import OURS, Allocator
from lab.workloads import alternate, buffers, compared, compared_table, idle, limited
from lab.workloads.compared import How, Measured, Used
from lab.workloads.compared_table import MEMORY, Row
from lab.workloads.recipe import WorkloadError
from llamalloc.running.memory_figures import Memory, Sizes
from llamalloc.running.memory_group import MemoryGroup

MIB = 1 << 20
_, _, PEAK, OVER_LIVE, *_ = MEMORY
SCRIPT = (
    "import json, sys\n"
    "{before}"
    "kept = bytearray({mib} << 20)\n"
    "print(json.dumps({{'live': {mib} << 20, 'seconds': 1.5}}), flush=True)\n"
    "sys.stdin.read()"
)
READY = "print(json.dumps({'ready': True}), flush=True); sys.stdin.readline()\n"


def run(
    mib: int, group: MemoryGroup | None, before: str = "", limit: int | None = None
) -> Measured:
    words = [sys.executable, "-c", SCRIPT.format(mib=mib, before=before)]
    return compared.measured(words, {}, group, How(limit))


def test_a_peak_is_of_the_charge_and_over_live(group: MemoryGroup):
    found = run(64, group)
    assert found.said == {"live": 64 * MIB, "seconds": 1.5} and not found.killed
    charge, rss = found.memory.charge, found.memory.rss
    assert 64 * MIB < charge.peak < 120 * MIB and 1 < found.memory.over_live < 2
    assert 64 * MIB < charge.end <= charge.peak and charge.average <= charge.peak
    assert 64 * MIB < rss.end <= rss.peak and 0 < rss.average <= rss.peak
    assert found.after.charge <= charge.peak


def test_without_a_group_it_is_of_rss():
    found = run(64, None)
    assert found.memory.charge is None
    assert found.memory.over_live == found.memory.rss.peak / (64 * MIB) > 1
    assert found.after.charge == found.after.rss


def test_memory_before_the_load_is_read_where_the_program_waits_for_that(group: MemoryGroup):
    found = run(64, group, before=READY)
    assert 60 * MIB < idle.kept(found, "charge") < 80 * MIB
    assert 60 * MIB < idle.kept(found, "rss") < 80 * MIB


def test_a_program_above_its_limit_is_killed_and_that_is_told(group: MemoryGroup):
    found = run(64, group, limit=40 * MIB)
    assert found.killed and found.said == {} and found.memory is None


def test_a_program_that_fails_otherwise_is_an_error():
    with pytest.raises(WorkloadError, match="ended with 3"):
        compared.measured([sys.executable, "-c", "raise SystemExit(3)"], {}, None, How())


def test_a_library_that_is_not_in_the_program_is_an_error():
    with pytest.raises(WorkloadError, match=r"libnosuch\.so is not mapped"):
        words = [sys.executable, "-c", SCRIPT.format(mib=1, before="")]
        compared.measured(words, {"LD_PRELOAD": "libnosuch.so"}, None, How())


def test_an_allocator_gets_its_own_variables_only():
    ours = Allocator(OURS, "/l.so", "", "")
    tuned = Allocator("tcmalloc", "/t.so", "", "", "glibc.pthread.rseq=0")
    glibc = Allocator("glibc", "libc.so.6", "", "")
    assert compared.environment(ours, "a:1") == {"LD_PRELOAD": "/l.so", "LLAMALLOC_CONF": "a:1"}
    assert compared.environment(tuned, "a:1")["GLIBC_TUNABLES"] == "glibc.pthread.rseq=0"
    assert compared.environment(glibc, "a:1") == {}


def memory(peak: int) -> Memory:
    """With a peak of so many MiB, and figures that no other has."""
    charge, rss = (peak // 3, peak // 2, peak), (peak // 5, peak // 4, peak - 1)
    return Memory(Sizes(*(n * MIB for n in rss)), Sizes(*(n * MIB for n in charge)), 100 * MIB)


def rows() -> list[Row]:
    found = []
    for name, peak in ((OURS, 150), ("glibc", 120), ("jemalloc-5.3.0", 240)):
        said = {"live": 100 * MIB, "seconds": 2.0}
        runs = [Measured(said=said, memory=memory(peak + noise)) for noise in (0, -5, 9)]
        found.append(Row(name, runs, [Measured(killed=peak > 200), Measured()]))
    return found


def shown(view) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def test_the_table_shows_medians_beside_the_best_peer_and_who_survived():
    text = shown(compared_table.table("t", rows(), (PEAK, OVER_LIVE), "alive"))
    ours, glibc, jemalloc = (line.split() for line in text.splitlines() if "of 2" in line)
    assert ours == [OURS, "150", "1.50", "1.25", "2", "of", "2"]
    assert glibc[1:4] == ["120", "1.20", "1.00"]
    assert jemalloc[3:] == ["2.00", "1", "of", "2"]


def test_charge_and_rss_are_shown_at_the_end_on_average_and_at_the_peak():
    text = shown(compared_table.table("t", rows(), MEMORY))
    ours = next(line.split() for line in text.splitlines() if OURS in line)
    #                charge at the end, on average, peak; peak / live; RSS likewise
    assert ours[1:] == ["50", "75", "150", "1.50", "1.25", "30", "37", "149"]
    for row in (found := rows()):
        for run in row.runs:
            run.memory = replace(run.memory, charge=None)
    text = shown(compared_table.table("t", found, MEMORY))
    ours = next(line.split() for line in text.splitlines() if OURS in line)
    assert ours[1:] == ["-", "-", "-", "1.49", "1.25", "30", "37", "149"]


@pytest.mark.parametrize("module", [alternate, buffers, limited, idle])
def test_every_comparison_shows_all_of_memory(module, monkeypatch):
    shown_columns = []
    monkeypatch.setattr(
        compared_table, "table", lambda title, rows, columns, *_: shown_columns.extend(columns)
    )
    monkeypatch.setattr(module.Rounds, "run", lambda self, loads: {n.name: [] for n in loads})
    monkeypatch.setattr(compared, "present", lambda options, say: [])
    monkeypatch.setattr(compared_table, "show", lambda views, grouped: None)
    assert module.main([]) == 0
    assert set(MEMORY) <= set(shown_columns)


def test_the_best_peer_is_not_ours():
    found = rows()
    for run in found[0].runs:
        run.memory = replace(run.memory, charge=Sizes(0, 0, run.memory.charge.peak // 2))
    text = shown(compared_table.table("t", found, (OVER_LIVE,)))
    ours = next(line.split() for line in text.splitlines() if OURS in line)
    assert ours == [OURS, "0.75", "0.62"]


def test_no_peer_is_no_ratio_and_no_run_is_a_dash():
    text = shown(compared_table.table("t", [Row(OURS)], (PEAK, OVER_LIVE), "alive"))
    assert text.split()[-5:] == [OURS, "-", "-", "-", "-"]


def test_what_is_kept_is_beside_what_was_there_before():
    run = Measured(before=Used(5, 6, 5, 0), after=Used(8, 16, 8, 2))
    assert (idle.kept(run, "rss"), idle.kept(run, "charge"), idle.kept(run, "huge")) == (3, 10, 2)


def test_json_holds_every_run(tmp_path: Path):
    compared_table.write(tmp_path / "f.json", {"large": rows()})
    read = json.loads((tmp_path / "f.json").read_text())
    assert [row["allocator"] for row in read["loads"]["large"]][:2] == [OURS, "glibc"]
    assert read["loads"]["large"][2]["limited"][0]["killed"] is True


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        (alternate, ["--only", "nosuch"], "no pair nosuch; there are large, shuffled,"),
        (idle, ["--only", "nosuch"], "no sizes nosuch; there are small,"),
        (limited, ["--allocators", "nosuch"], "no allocator nosuch; there are llamalloc,"),
    ],
)
def test_unknown_names_are_one_line(module, words: list[str], said: str, capsys):
    assert module.main(words) == 2
    assert said in capsys.readouterr().err

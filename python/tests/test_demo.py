# SPDX-License-Identifier: Apache-2.0
"""The demo's parts that need no server: reading its tools' output, judging logs, sums, page."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console
from support.statistics import document

from lab import peers, redis
from lab import redis_benchmark as benchmark
from lab.demo import allocators, main, measure, page, results, table
from lab.demo.sampler import Series
from lab.redis_benchmark import BenchmarkError, Rate
from llamalloc.running import procmem
from llamalloc.running.server import ServerError

# What redis-benchmark 7.0.15 prints with --csv.
CSV = """"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms"
"SET","37188.55","82.268","22.432","61.439","124.095"
"LPUSH (needed to benchmark LRANGE)","40469.45","73.334","26.944","53.823","238.719"
"LRANGE_100 (first 100 elements)","5697.03","258.227","55.040","137.343","507.391"
"""


def test_benchmark_lines_are_read() -> None:
    parsed = [benchmark.parse_line(line) for line in CSV.splitlines()]
    assert parsed == [None, ("SET", 37188.55), ("LPUSH 2", 40469.45), ("LRANGE_100", 5697.03)]


@pytest.mark.parametrize("line", ["WARNING: Could not fetch server CONFIG", '"SET"', '"SET","x"'])
def test_other_lines_are_faults(line: str) -> None:
    with pytest.raises(BenchmarkError, match="cannot read"):
        benchmark.parse_line(line)


def test_smaps_rollup_is_summed_in_bytes() -> None:
    text = """5569 ---p 00000000 00:00 0      [rollup]
Rss:              316980 kB
Pss_Anon:         307452 kB
Anonymous:        307452 kB
AnonHugePages:    106496 kB
"""
    memory = procmem.parse_smaps_rollup(text)
    assert memory == procmem.Memory(316980 << 10, 307452 << 10, 106496 << 10)
    assert memory.coverage == pytest.approx(0.33597, abs=1e-5)


def test_what_is_left_without_files_is_a_part_of_the_resident_memory():
    held, memory = procmem.read_without_files(os.getpid()), procmem.read_memory(os.getpid())
    assert memory.anonymous / 2 < held < memory.rss


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("1:M 21 Nov 2026 01:40:50.496 # Redis is now ready to exit, bye bye...", False),
        ("1:M 21 Nov 2026 01:40:50.496 * Ready to accept connections", False),
        ("1:M 21 Nov 2026 01:40:50.496 # WARNING Memory overcommit must be enabled!", False),
        ("1:M 21 Nov 2026 01:40:50.496 # Out Of Memory allocating 64 bytes!", True),
        ("=== REDIS BUG REPORT START: Cut & paste starting from here ===", True),
        ("llamalloc: free of a pointer that was not allocated", True),
    ],
)
def test_only_error_lines_count_as_errors(line: str, bad: bool) -> None:
    assert redis.is_error(line) is bad


def a_run(name: str, rss: int, used: int, rates: tuple[float, ...] = (100.0, 50.0)) -> results.Run:
    tests = [Rate(f"T{i}", rate, end=float(i)) for i, rate in enumerate(rates)]
    series = Series([0.0, 1.0], [10, rss], [0, rss // 2], [0.1, 1.1], [5, used])
    row = next(row for row in allocators.ROWS if row.name == name)
    return results.Run(
        name, row.title, rss, rss // 2, used, 1.0, tests, series, rss + 1, anonymous=rss * 4 // 5
    )


def test_rows_are_medians_over_one_common_live() -> None:
    found = results.Results("always", "m")
    found.runs = [a_run("learned", rss, 110) for rss in (130, 120, 500)]
    found.runs.append(a_run("glibc", 300, 100))
    learned, glibc = found.rows()
    assert (found.live(), learned.runs, learned.rss) == (100, 3, 130)
    assert (learned.ratio, glibc.ratio, learned.coverage) == (1.3, 3.0, 0.5)
    assert learned.anonymous_coverage == 0.625
    assert learned.requests_per_second == pytest.approx(200 / 3)
    assert (chosen := found.one_run("learned")) is not None and chosen.rss == 130


def test_the_sampler_is_judged_by_recorded_runs_beside_plain_ones() -> None:
    found = results.Results("always", "m", runs=[a_run("plain", 1, 1, (100.0,))])
    assert page.sampling_text(found) == ""
    found.recorded = [a_run("plain", 1, 1, (99.0,))]
    assert found.sampling() == (100.0, 99.0)
    assert "(-1.0%)" in page.sampling_text(found)


def test_results_come_back_from_their_file_and_make_a_page(tmp_path: Path) -> None:
    found = results.Results("always", "a & b")
    found.runs = [a_run("jemalloc", 3 << 20, 2 << 20), a_run("learned", 2 << 20, 2 << 20)]
    found.write(tmp_path / "r.json")
    again = results.read(tmp_path / "r.json")
    assert again == found
    page.write(again, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "a &amp; b" in text and "RSS / live" in text and "1.50" in text
    assert "average RSS" in text and "1.5 MiB" in text
    assert 'src="data:image/png;base64,' in text and "http" not in text
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


# ----- Rows that learn by themselves -----


def row_of(name: str) -> allocators.Row:
    return next(row for row in allocators.ROWS if row.name == name)


def test_the_first_run_forgets_and_later_ones_remember(tmp_path: Path) -> None:
    state = measure.state_of(tmp_path)
    for leftover in (state, Path(f"{state}.lock")):
        leftover.touch()
    for name in ("learns-2", "learns-3"):
        measure.prepare_state(row_of(name), tmp_path)
        assert state.exists()
    measure.prepare_state(row_of("plain"), tmp_path)
    assert state.exists()
    measure.prepare_state(row_of("learns-1"), tmp_path)
    assert not state.exists()


def test_wrong_use_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main.main(["--only", "plain", "--out", str(tmp_path / "file")]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and str(tmp_path / "file") in err
    with pytest.raises(SystemExit):
        main.main(["--runs", "0"])
    assert "--runs must be at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["learns-2", "learns-3"])
def test_a_later_run_needs_a_first(tmp_path: Path, name: str) -> None:
    with pytest.raises(ServerError, match=f"--only learns-1,{name}"):
        measure.prepare_state(row_of(name), tmp_path)


@pytest.mark.parametrize(
    ("name", "words"),
    [("plain", []), ("learned", ["--model", "redis.model"]), ("learns-1", ["--learn"])],
)
def test_our_rows_differ_by_an_option(tmp_path: Path, name: str, words: list[str]) -> None:
    prefix, _ = measure.launcher(row_of(name), tmp_path, tmp_path / "control")
    line = " ".join(prefix)
    assert all(word in line for word in words)
    assert ("redis.learned" in line) == name.startswith("learns")
    assert ("--model" in line) == (name == "learned")


def test_the_table_fits_a_terminal() -> None:
    found = results.Results("always", "m")
    found.runs = [a_run(row.name, 3 << 20, 2 << 20) for row in allocators.ROWS]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table.table(found))
    text = console.export_text()
    assert "charge" in text and "mean" in text and "peak" in text and "…" not in text
    assert "no memory control group" in text
    for run in found.runs:
        run.charge = run.peak_charge = 1234 << 20
    console.print(table.table(found))
    assert "1,234" in (text := console.export_text()) and "no memory control group" not in text


def test_charges_are_medians_and_the_peak_is_over_the_most_that_was_live() -> None:
    found = results.Results("always", "m")
    found.runs = [a_run("learned", 300, 100) for _ in range(3)]
    for run, charge in zip(found.runs, (150, 130, 200), strict=True):
        run.series.charge_at, run.series.charge = [0.0, 0.4, 1.2], [10, 80, 60]
        run.series.live_at, run.series.live = [0.2, 1.0], [20, 40]
        run.charge, run.peak_charge, run.peak_live = charge, 100, 80
    (row,) = found.rows()
    assert (row.charge, row.charge_ratio, row.average_charge) == (150, 1.5, 50)
    assert (row.peak_charge, row.peak_over_live) == (100, 1.25)
    assert row.average_over_live == pytest.approx((0.4 * 45 + 0.8 * 70) / 1.2 / 30)
    assert found.is_charged()


def test_without_a_group_only_rss_is_told() -> None:
    found = results.Results("always", "m", runs=[a_run("glibc", 300, 100)])
    (row,) = found.rows()
    assert (row.charge, row.charge_ratio, row.peak_over_live) == (None, None, None)
    assert (row.rss, row.average_rss, row.peak_rss) == (300, 155, 301)
    assert not found.is_charged()
    found.runs[0].peak_live = 100
    assert found.rows()[0].peak_over_live == 3.01


def test_a_page_with_charges_says_what_they_are(tmp_path: Path) -> None:
    found = results.Results("always", "m", runs=[a_run("learned", 3 << 20, 2 << 20)])
    page.write(found, tmp_path)
    assert "no memory control group" in (tmp_path / "report.html").read_text()
    run = found.runs[0]
    run.charge = run.peak_charge = 5 << 20
    run.series.charge_at, run.series.charge = [0.0, 1.0], [1 << 20, 5 << 20]
    page.write(found, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "the kernel charges to" in text and "2.50" in text and "no memory control" not in text


def test_a_row_that_learns_needs_no_training() -> None:
    assert [row.name for row in allocators.ROWS if row.learned] == ["learned"]
    assert allocators.SOAKED.name == "learned"


def test_the_page_says_what_was_learned_and_decided(tmp_path: Path) -> None:
    found = results.Results("always", "m")
    found.runs = [a_run(name, 3 << 20, 2 << 20) for name in ("plain", "learns-1", "learns-2")]
    for run in found.runs[1:]:
        run.statistics = document() | {"learning": "on: /s", "segregation": "placement is on"}
    page.write(found, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "learns by itself, first run" in text and "learns by itself, second run" in text
    assert "What llamalloc learned by itself" in text and text.count("Placement is on.") == 2


# ----- Peers that are built -----


def test_a_peer_that_is_not_built_is_a_line_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "OUT", tmp_path)
    said: list[str] = []
    rows = allocators.chosen(["tcmalloc", "mimalloc-3", "plain"])
    assert [r.name for r in allocators.present(rows, False, said.append)] == ["plain"]
    assert said == [
        f"{title} is left out: it is not built; --peers all builds it"
        for title in ("tcmalloc (Google)", "mimalloc 3")
    ]
    (tmp_path / "libtcmalloc.so").touch()
    assert [r.name for r in allocators.present(rows, False, said.append)] == ["tcmalloc", "plain"]


def test_peers_are_built_only_where_all_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[set[str]] = []

    def ensure(names: set[str], say: object) -> dict[str, str]:
        asked.append(names)
        return {"tcmalloc": "cargo is not installed"}

    monkeypatch.setattr(peers, "OUT", tmp_path)
    monkeypatch.setattr(peers, "ensure", ensure)
    said: list[str] = []
    rows = allocators.chosen(["tcmalloc", "glibc"])
    allocators.present(rows, False, said.append)
    assert asked == []
    assert [r.name for r in allocators.present(rows, True, said.append)] == ["glibc"]
    assert asked == [{"tcmalloc"}]
    assert said[-1] == "tcmalloc (Google) is left out: cargo is not installed"


def test_each_peer_serves_malloc_by_its_own_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "OUT", tmp_path)
    (tmp_path / "libtcmalloc.so").touch()

    def preloaded(name: str) -> dict[str, str]:
        _, environment = measure.launcher(row_of(name), tmp_path, tmp_path / "control")
        names = ("LD_PRELOAD", "GLIBC_TUNABLES")
        return {n: environment[n] for n in names if n in environment}

    # Not as shipped: redis-server is linked to jemalloc.
    assert preloaded("glibc") == {"LD_PRELOAD": "libc.so.6"}
    assert preloaded("jemalloc") == {}
    library = str(tmp_path / "libtcmalloc.so")
    assert preloaded("tcmalloc") == {
        "LD_PRELOAD": library, "GLIBC_TUNABLES": "glibc.pthread.rseq=0",
    }  # fmt: skip
    assert row_of("tcmalloc").mapped == "libtcmalloc.so"


def test_nothing_left_to_run_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(peers, "OUT", tmp_path)
    assert main.main(["--only", "tcmalloc", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "demo: no row is left to run\n"


def test_unknown_rows_are_named() -> None:
    rows = allocators.chosen(["learned", "jemalloc"])
    assert [row.name for row in rows] == ["jemalloc", "learned"]
    with pytest.raises(ValueError, match="no allocator named ptmalloc"):
        allocators.chosen(["ptmalloc"])

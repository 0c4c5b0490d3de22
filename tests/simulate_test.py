# SPDX-License-Identifier: Apache-2.0
"""The simulator as built: every policy, bad input, agreement with the library itself."""

import json
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest
from hugepages import without_huge_pages
from preload import ROOT

from llamalloc.running import simulation
from llamalloc.running.simulation import LOSSES, Setting

TOOL = ROOT / "build" / "release" / simulation.TOOL


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(TOOL), *words], capture_output=True, text=True, check=False)


def test_every_policy_accounts_for_every_byte() -> None:
    runs = simulation.plan(simulation.POLICIES, ["oracle", "site:0.99"])
    results = simulation.run_all(Setting("synthetic:waves:60000", samples=20), runs)
    assert [(r["policy"], r["predictor"]) for r in results] == runs
    for found in results:
        assert found["trace"] == results[0]["trace"]
        kinds = [m["kind"] for m in found["moments"]]
        assert kinds.count("sample") == 20 and {"peak", "end"} <= set(kinds)
        for moment in found["moments"]:
            assert moment["huge"] == moment["live"] + sum(moment[name] for name in LOSSES)
            assert moment["small"] <= moment["huge"]


def test_the_same_seed_gives_the_same_result() -> None:
    words = ["synthetic:random:20000", "--error", "0.3", "--error-objects", "--samples", "5"]
    runs = [json.loads(run(*words, "--seed", seed).stdout) for seed in ("1", "1", "2")]
    for found in runs:
        del found["events_per_second"], found["seed"]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["/none.trace"], 1, "/none.trace: No such file"),
        (["synthetic:none"], 1, "two-class"),
        (["synthetic:waves:x"], 1, "'x' is not a number"),
        (["synthetic:waves:-1"], 1, "'-1' is not a number"),
        (["synthetic:waves:99999999999999999999999"], 1, "up to 1000000000000"),
        (["synthetic:waves:1000", "--learn", "/none.trace"], 1, "/none.trace"),
        (["synthetic:waves:1000", "--predictor", "model:/none"], 1, "/none"),
        (["synthetic:waves", "--policy", "worst-fit"], 2, "slabs-lowest"),
        (["synthetic:waves", "--predictor", "site:7"], 2, "site:0.9999"),
        (["synthetic:waves", "--error", "x"], 2, "share"),
        (["synthetic:waves", "--predictor", "online:x"], 2, "online:512KiB"),
        (["synthetic:waves", "--predictor", "online", "--policy", "best-fit"], 2, "llamalloc"),
        (["synthetic:waves", "--predictor", "state:/none"], 1, "/none: no such file"),
        (["synthetic:waves", "--keep", "/none"], 2, "online"),
        (["synthetic:waves", "--conf", "segregate:x"], 2, "expected auto, always or never\n"),
        (["synthetic:waves", "--conf", "soft_limit:64MiB"], 2, "soft_limit is not simulated"),
        (["synthetic:waves", "--conf", "worker:off"], 2, "worker is not simulated"),
        (["synthetic:waves", "--conf", "hard_limit:1MiB"], 1, "hard_limit"),
        (["synthetic:waves", "--samples", "0"], 2, "number"),
        ([], 2, "one trace"),
    ],
)
def test_bad_input_is_one_line(words: list[str], code: int, told: str) -> None:
    done = run(*words)
    assert done.returncode == code and done.stdout == ""
    assert told in done.stderr and done.stderr.count("\n") == 1


def test_damaged_traces_are_told(tmp_path: Path) -> None:
    damaged = tmp_path / "t.trace"
    for data in (b"", b"llmtrace", b"\0" * 4096, b"llmtrace\x01\0\0\0" + b"\xff" * 500):
        damaged.write_bytes(data)
        done = run(str(damaged))
        assert done.returncode == 1 and done.stdout == ""
        assert "t.trace" in done.stderr and done.stderr.count("\n") == 1


def test_a_trace_that_was_cut_off_is_simulated_and_told(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    nginx = ROOT / "workloads" / "traces" / "nginx.trace"
    cut = [str(TOOL.with_name("llamalloc-trace")), "cut", str(nginx), "-o", str(path)]
    subprocess.run([*cut, "--events", "2000"], check=True)
    whole = path.read_bytes()
    for data, ended in ((whole, True), (whole[:-1], False)):
        path.write_bytes(data)
        assert json.loads(run(str(path)).stdout)["trace"]["ended_in_order"] is ended


@pytest.mark.parametrize("kind", ["model", "state"])
def test_a_damaged_predictor_is_named_once(tmp_path: Path, kind: str) -> None:
    damaged = tmp_path / "p"
    for data in (None, b"", b"llmlearn", b"text"):
        if data is not None:
            damaged.write_bytes(data)
        done = run("synthetic:waves:20000", "--predictor", f"{kind}:{damaged}")
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.count(str(damaged)) == 1 and done.stderr.count("\n") == 1
        assert done.stderr.count("llamalloc") == 1 and "it is " not in done.stderr


def test_another_file_is_not_replaced_by_what_was_learned(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"a model")
    done = run("synthetic:waves:1000", "--predictor", "online", "--keep", str(kept))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"llamalloc-simulate: state {kept}: not a state file")
    assert kept.read_bytes() == b"a model"


def replayed(trace: str, samples: int, speed: float = 1) -> dict:
    return simulation.replay(trace, samples, speed)


def test_a_replay_tells_when_what_happened() -> None:
    real = replayed("synthetic:waves:100000", samples=10)
    assert len(real["clock"]) == 4097 and real["clock"] == sorted(real["clock"])
    assert real["worker"] == sorted(real["worker"]) != []
    assert real["worker"][-1][0] <= 100_000 + 16
    assert len(real["samples"]) == 10


def test_a_replay_is_never_early() -> None:
    # Events 2 ms apart: sixteen of them are 32.
    real = replayed("synthetic:random:2000", samples=1)
    due = [i * real["duration_ns"] / 4096 for i in range(4097)]
    assert max(d - at for d, at in zip(due, real["clock"], strict=True)) < 5e6


def test_a_replay_starts_with_an_empty_heap() -> None:
    needed = subprocess.run(
        ["readelf", "-d", TOOL.with_name(simulation.REPLAY)], capture_output=True, text=True
    ).stdout
    assert "libc.so" in needed and "libstdc++" not in needed


def test_a_replay_of_no_trace_says_so() -> None:
    with pytest.raises(simulation.SimulationError, match=r"none\.trace"):
        replayed("/none.trace", samples=1)


@pytest.mark.parametrize("text", ["", "2 0", "2 9 1 4 0", "2 0 9 4 4", "2 0 9 4 0 x"])
def test_a_bad_pace_is_one_line(text: str, tmp_path: Path) -> None:
    pace = tmp_path / "p.pace"
    pace.write_text(text)
    done = run("synthetic:waves:1000", "--pace", str(pace))
    assert done.returncode == 1 and done.stdout == ""
    assert "p.pace" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("pages", ["as the system is set", "small pages"])
def test_it_agrees_with_the_library_itself(pages: str) -> None:
    with without_huge_pages() if pages == "small pages" else nullcontext():
        agreement = simulation.compare_with_replay(Setting("synthetic:waves:400000"))
    assert agreement.average == pytest.approx(1, abs=0.02)
    assert agreement.peak == pytest.approx(1, abs=0.02)

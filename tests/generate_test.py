# SPDX-License-Identifier: Apache-2.0
"""llamalloc-generate: traces that repeat, that read back, and faults in one line."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
SIZES = ROOT / "workloads" / "fleetbench" / "TCMALLOC_1.csv"
SMALL = ["--events", "200000", "--live", "4", "--period", "0.5"]


def generate(*words: object) -> subprocess.CompletedProcess:
    command = [str(BUILD / "llamalloc-generate"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def info_of(trace: Path) -> dict:
    command = [str(BUILD / "llamalloc-trace"), "info", str(trace)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def test_a_trace_repeats_by_its_seed_and_reads_back(tmp_path):
    file = tmp_path / "x.trace"
    traces = []
    for seed in (1, 1, 2):
        done = generate(SIZES, "-o", file, *SMALL, "--seed", seed)
        assert done.returncode == 0, done.stderr
        info = info_of(file)
        traces.append(
            {k: v for k, v in info.items() if k != "command"} | {"bytes": file.read_bytes()}
        )
    assert traces[0] == traces[1]
    assert traces[0]["peak_objects"] != traces[2]["peak_objects"]
    info = traces[0]
    assert info["allocations"] + info["resizes"] + info["frees"] == 200_000
    assert info["threads"] == 16 and info["foreign_frees"] > 0.1 * info["frees"]
    assert info["stacks"] > 150 and info["ended_in_order"]
    assert 2 << 20 < info["peak_bytes"] < 20 << 20
    names = {name for stack in info["top_stacks"] for name in stack["frames"]}
    assert "main" in names


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "a file of sizes is missing"),
        ([SIZES], 2, "-o OUT.trace is missing"),
        ([SIZES, "-o", "/no/such/x.trace"], 1, "/no/such/x.trace"),
        (["/no/sizes.csv", "--dry"], 1, "/no/sizes.csv: No such file"),
        ([SIZES, "--depth", "2", "--dry"], 2, "--depth needs a number from 0 to 1"),
        ([SIZES, "--events"], 2, "--events needs a number from 1"),
        ([SIZES, "--wave", "square"], 2, "--wave needs none, sine, steps, bursts or days"),
        ([SIZES, "--nosuch"], 2, "--nosuch: no such option"),
        ([SIZES, "--heavy", "0.7", "--sessions", "0.7", "--dry"], 2, "exceed 1"),
    ],
)
def test_a_fault_is_one_line(words, code, said):
    done = generate(*words)
    assert done.returncode == code
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_help_has_examples():
    done = generate("--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout and "--remote SHARE" in done.stdout

# SPDX-License-Identifier: Apache-2.0
"""workloads/traces: one small trace a workload, whole, and as the README says."""

import json
import subprocess
from pathlib import Path

import pytest

from lab.workloads.programs import ALL
from lab.workloads.programs.servers import SERVERS

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "workloads" / "traces"
TOOL = ROOT / "build" / "release" / "llamalloc-trace"
# The trace of clangd would be clang's again. Servers make their load themselves, by the seed.
WITHOUT = {"clangd", *(recipe.name for recipe in SERVERS)}
NAMES = [*(recipe.name for recipe in ALL if recipe.name not in WITHOUT), "fleetbench"]


def test_there_is_one_for_each_workload():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_is_whole_small_and_described(name):
    file = FOLDER / f"{name}.trace"
    done = subprocess.run([TOOL, "info", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    assert info["missing_frees"] == info["unknown_frees"] == info["lost_bytes"] == 0
    events = info["allocations"] + info["resizes"] + info["frees"]
    assert events > 50_000
    assert file.stat().st_size < 1 << 20
    line = f"| `{name}` | {events / 1e3:,.0f} k | {info['peak_bytes'] / 2**20:.1f} MiB |"
    assert line in (ROOT / "workloads" / "README.md").read_text()

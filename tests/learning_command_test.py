# SPDX-License-Identifier: Apache-2.0
"""`llamalloc run --learn`, twice, on a server whose lifetimes are known: the second run begins with
what the first one kept, and `llamalloc report` shows both."""

import json
import subprocess
from pathlib import Path

from preload import ROOT, compile_program

COMMAND = ROOT / ".venv" / "bin" / "llamalloc"
LEARN = ("--segregate", "always", "--conf", "sample_interval:16KiB")


def llamalloc(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, timeout=120, check=True
    )


def test_two_runs_and_their_reports(tmp_path):
    server, stats = compile_program("lifetimes_server"), tmp_path / "s.json"
    state, printed, hits = tmp_path / "lifetimes_server.learned", [], []
    for _ in range(2):
        done = llamalloc(
            "run", "--learn", tmp_path, *LEARN, "--stats", stats, "--", server, "4", "1"
        )
        assert done.stderr == ""
        printed.append(done.stdout.splitlines()[0])
        assert state.stat().st_mode & 0o777 == 0o600
        hits.append(json.loads(stats.read_text())["stats"]["predict_hits"])
    assert printed[0] == printed[1]
    assert hits[1] > 0

    (kept,) = json.loads(llamalloc("report", "--json", state).stdout)
    assert kept["program"] == "lifetimes_server" and kept["runs"] == 2 and kept["samples"] > 100
    told = " ".join(llamalloc("report", stats).stdout.split())
    assert "Learning is on" in told and "Placement by lifetime is" in told

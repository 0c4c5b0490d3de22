# SPDX-License-Identifier: Apache-2.0
"""A process that learns while it is recorded, and the simulation of that recording: both end with
the same classes for the same contexts, but for lives near a bound, and with the same decision of
the gate."""

import json
import os
import subprocess
import sys
from pathlib import Path

from preload import ROOT, compile_program

from llamalloc.formats import learned_state
from llamalloc.learning.evidence import verdict
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.running import simulation

LEARN = "sample_interval:16KiB,segregate:auto"
ENOUGH = 100  # samples, so that both have seen the same rare lives


def record(folder: Path) -> tuple[Path, Path]:
    """The trace of a run that learned, and the state that it kept."""
    trace, state = folder / "t.trace", folder / "process.learned"
    environment = os.environ | {"LLAMALLOC_CONF": f"learn:{state},{LEARN}"}
    command = [sys.executable, "-m", "llamalloc.cli", "trace", "-o", trace, "--"]
    subprocess.run(
        [*command, compile_program("lifetimes_server"), "6", "1"],
        env=environment, capture_output=True, timeout=300, check=True,
    )  # fmt: skip
    return trace, state


def simulate(trace: Path, keep: Path) -> dict:
    tool = ROOT / "build" / "release" / simulation.TOOL
    words = ["--predictor", "online", "--conf", LEARN, "--keep", keep]
    done = subprocess.run([tool, trace, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def classes(state: learned_state.LearnedState) -> dict[int, str]:
    """By key: the contexts that are decided, on many samples, and not by what they call on."""
    many = (node for node in state.nodes if node.samples >= ENOUGH and not node.differs)
    return {node.key: said for node in many if (said := verdict(node))}


def test_process_and_simulation_learn_the_same(tmp_path: Path) -> None:
    trace, of_process = record(tmp_path)
    of_simulation = tmp_path / "simulation.learned"
    found = simulate(trace, of_simulation)
    real, simulated = learned_state.read(of_process), learned_state.read(of_simulation)
    assert (simulated.program, simulated.name) == (real.program, real.name)
    assert simulated.gate.verdict == real.gate.verdict
    assert found["gate"][0]["verdict"] == "untried"
    known, also = classes(real), classes(simulated)
    both = known.keys() & also.keys()
    assert len(both) >= 3 and len(both) >= 0.8 * max(len(known), len(also))
    apart = [abs(CLASS_NAMES.index(known[key]) - CLASS_NAMES.index(also[key])) for key in both]
    assert max(apart) <= 1, "a rare life near a bound may move a verdict by one class, not by two"
    assert apart.count(0) >= 0.8 * len(apart)

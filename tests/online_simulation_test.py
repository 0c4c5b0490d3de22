# SPDX-License-Identifier: Apache-2.0
"""A process that learns while it is recorded, and the simulation of that recording: both end with
the same survival curves for the same contexts, and with the same decision of the gate."""

import json
import os
import subprocess
import sys
from math import sqrt
from pathlib import Path

from preload import ROOT, compile_program

from llamalloc.formats import learned_state
from llamalloc.learning.evidence import survival
from llamalloc.running import simulation

LEARN = "sample_interval:16KiB,segregate:auto"
ENOUGH = 20  # samples, for a curve


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


def well_known(state: learned_state.LearnedState) -> dict[int, learned_state.Node]:
    """By key: the contexts with many samples that are not told apart by what they call on."""
    return {n.key: n for n in state.nodes if n.samples >= ENOUGH and not n.differs}


def apart(one: learned_state.Node, other: learned_state.Node) -> float:
    """Distance of Kolmogorov and Smirnov between the survival curves, in their own unit: samples of
    the same lives stay below 2 (in 999 of 1,000)."""
    distance = max(abs(a - b) for a, b in zip(survival(one), survival(other), strict=True))
    return distance / sqrt(1 / one.samples + 1 / other.samples)


def test_process_and_simulation_learn_the_same(tmp_path: Path) -> None:
    trace, of_process = record(tmp_path)
    of_simulation = tmp_path / "simulation.learned"
    found = simulate(trace, of_simulation)
    real, simulated = learned_state.read(of_process), learned_state.read(of_simulation)
    assert (simulated.program, simulated.name) == (real.program, real.name)
    assert simulated.gate.verdict == real.gate.verdict
    assert found["gate"][0]["verdict"] == "untried"
    known, also = well_known(real), well_known(simulated)
    both = known.keys() & also.keys()
    assert len(both) >= 3 and len(both) >= 0.8 * max(len(known), len(also))
    # Not the verdicts: one rare life, of a thread that had to wait, may move those by classes.
    assert max(apart(known[key], also[key]) for key in both) < 2

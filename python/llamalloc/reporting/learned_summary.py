# SPDX-License-Identifier: Apache-2.0
"""A state file summed up: whose it is, what the gate decided, how many contexts are decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from llamalloc.formats.contracts import class_names
from llamalloc.formats.learned_state import Gate, GateVerdict, LearnedState
from llamalloc.learning.evidence import verdict


@dataclass(frozen=True)
class LearnedSummary:
    """`program`: name; `build`: hash of its build-id; `decided`: contexts by lifetime class."""

    file: str
    program: str
    build: str
    runs: int
    gate: str
    contexts: int
    undecided: int
    unseen: int
    samples: int
    decided: dict[str, int]


def summarise(state: LearnedState, file: str) -> LearnedSummary:
    """Sums up one state file. Contexts are counted with all their depths."""
    classes = Counter(verdict(node) for node in state.nodes)
    return LearnedSummary(
        file=file,
        program=state.name,
        build=f"{state.program:016x}",
        runs=state.runs,
        gate=gate_text(state.gate),
        contexts=len(state.nodes),
        undecided=classes[None],
        unseen=sum(node.unseen > 0 for node in state.nodes),
        samples=sum(node.samples for node in state.nodes if node.depth == 1),
        decided={name: classes[name] for name in class_names() if classes[name]},
    )


def gate_text(gate: Gate) -> str:
    """One sentence on what the gate decided, and on which figures."""
    figures = _figures(gate)
    if gate.verdict == GateVerdict.ON:
        return f"Objects are placed by lifetime{figures}."
    if gate.verdict == GateVerdict.OFF:
        return f"Objects are not placed by lifetime, since it does not pay here{figures}."
    return f"Whether placing objects by lifetime pays is not known yet{figures}."


def _figures(gate: Gate) -> str:
    measured = [("without", gate.blind_permille), ("with", gate.placed_permille)]
    parts = [f"{permille / 1000:.2f} {how}" for how, permille in measured if permille]
    return f": footprint / live memory is {', '.join(parts)} it" if parts else ""

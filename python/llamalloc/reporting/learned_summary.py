# SPDX-License-Identifier: Apache-2.0
"""A state file summed up: whose it is, what the gate decided, how many call sites are decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from llamalloc.formats.contracts import class_names
from llamalloc.formats.learned_state import (
    MAX_REVERSALS,
    Gate,
    GateVerdict,
    GateWaste,
    LearnedState,
)
from llamalloc.learning import saving
from llamalloc.learning.evidence import verdict


@dataclass(frozen=True)
class LearnedSummary:
    """`program`: name; `build`: hash of its build-id; `contexts`: nodes of all levels.

    The rest counts call sites (level 1). `differing`: those whose lifetimes depend on the size or
    on callers; `decided`: the others, by lifetime class.
    """

    file: str
    program: str
    build: str
    runs: int
    gate: str
    contexts: int
    sites: int
    differing: int
    undecided: int
    unseen: int
    samples: int
    decided: dict[str, int]


def summarise(state: LearnedState, file: str) -> LearnedSummary:
    """Sums up one state file. Deeper levels split the samples of level 1, so only that counts."""
    sites = [node for node in state.nodes if node.level == 1]
    classes = Counter(verdict(node) for node in sites if not node.differs)
    return LearnedSummary(
        file=file,
        program=state.name,
        build=f"{state.program:016x}",
        runs=state.runs,
        gate=gate_text(state.gate),
        contexts=len(state.nodes),
        sites=len(sites),
        differing=sum(node.differs for node in sites),
        undecided=classes[None],
        unseen=sum(node.unseen > 0 for node in sites),
        samples=sum(node.samples for node in sites),
        decided={name: classes[name] for name in class_names() if classes[name]},
    )


def gate_text(gate: Gate) -> str:
    """What the gate decided, what placement saves, and what was measured, in a few sentences."""
    trial = "The next start places objects" if not gate.placed.rounds else "Objects are placed"
    decided = {
        GateVerdict.UNTRIED: "It is not known yet whether placing objects by lifetime pays",
        GateVerdict.ON_TRIAL: f"{trial} by lifetime, on trial",
        GateVerdict.HELPS: "Objects are placed by lifetime, since that saves memory",
        GateVerdict.FAILS: f"Objects are not placed by lifetime{_for_good(gate)}, since that did "
        f"not pay",
        GateVerdict.MISTAKEN: f"Objects are not placed by lifetime{_for_good(gate)}, since "
        f"predictions did not hold",
    }
    return " ".join([f"{decided[gate.verdict]}: {saving.clause(gate)}.", *_figures(gate)])


def _for_good(gate: Gate) -> str:
    return " any more" if gate.reversals == MAX_REVERSALS else ""


def _figures(gate: Gate) -> list[str]:
    measured = [("without", gate.blind), ("with", gate.placed)]
    parts = [_waste(waste, how) for how, waste in measured if waste.rounds]
    if not parts:
        return []
    return [f"At low load, free memory that stays held is {', '.join(parts)}."]


def _waste(waste: GateWaste, how: str) -> str:
    return f"{waste.low / 1000:.0%} of the peak {how} it (held / live {waste.ratio / 1000:.2f})"

# SPDX-License-Identifier: Apache-2.0
"""What placement by lifetime saves in troughs, by a gate's record (learned_state.md, `gate`).

    saved = (blind.low - placed.low) permille of the peak

`placed` is measured, or, before the first trial, what the trough that put it on trial foretells.
"""

from llamalloc.formats.learned_state import NO_FIGURE, Gate, GateVerdict


def is_measured(gate: Gate) -> bool:
    """Whether rounds were measured both without and with placement."""
    return bool(gate.blind.rounds and gate.placed.rounds)


def is_foretold(gate: Gate) -> bool:
    """Whether the trial has not begun and its gain was estimated."""
    estimated = gate.placed.rounds == 0 and gate.placed.low > 0
    return gate.verdict == GateVerdict.ON_TRIAL and gate.blind.rounds > 0 and estimated


def saved_permille(gate: Gate) -> int:
    """Of the peak, in troughs; negative: it costs."""
    return gate.blind.low - gate.placed.low


def clause(gate: Gate) -> str:
    """What it saves, and on which figures, to stand behind a colon; empty: nothing tells."""
    if is_measured(gate):
        saved = saved_permille(gate)
        kept = "saves only" if gate.verdict == GateVerdict.FAILS else "saves"
        verb = "costs" if saved < 0 else kept
        return f"it {verb} {amount(gate, abs(saved))}, as measured{_cost_at_high_load(gate)}"
    if gate.verdict in (GateVerdict.FAILS, GateVerdict.MISTAKEN):
        return "what it saves in troughs was not measured"
    if is_foretold(gate):
        return f"it would save {amount(gate, saved_permille(gate))}, as estimated"
    if gate.blind.rounds:
        return f"it can save at most {amount(gate, gate.blind.low)}, which is all that stays held"
    return "no trough of the load was measured"


def _cost_at_high_load(gate: Gate) -> str:
    """Why it was given up, though it may save something in troughs."""
    given_up = gate.verdict == GateVerdict.FAILS
    cost = gate.placed.high - gate.blind.high
    if not given_up or NO_FIGURE in (gate.placed.high, gate.blind.high) or cost <= 0:
        return ""
    return f", and costs {_size(gate, cost)} at high load"


def amount(gate: Gate, permille: int) -> str:
    """So much of the peak, in MiB where that is known."""
    of_load = f" of a load of {gate.peak:,} MiB" if gate.peak else ""
    return f"{_size(gate, permille)} in troughs{of_load}"


def _size(gate: Gate, permille: int) -> str:
    if gate.peak == 0:
        return f"{permille / 1000:.0%} of the peak"
    return f"{gate.peak * permille / 1000:,.0f} MiB"

# SPDX-License-Identifier: Apache-2.0
"""What the recorded runs prove of placement by lifetime: the gate's record for the model file.

A process starts with placement on if its model says `on trial` or `helps`; otherwise it places
nothing until it has measured that this may pay. The rules and thresholds are those of the gate
(src/learning/gate.h).
"""

from collections.abc import Sequence

from llamalloc.formats.learned_state import Gate, GateVerdict, GateWaste, LearnedState
from llamalloc.formats.profile import Profile
from llamalloc.learning.context_tree import Rule
from llamalloc.learning.contexts import Seen
from llamalloc.learning.labels import MIXED, dies_soon

_PINNED_MIB = 32
_SAVED_PERMILLE = 150  # of the peak
_SPARSE_PERMILLE = 1450  # held by live


def proof(
    states: Sequence[LearnedState], profiles: Sequence[Profile], seen: Sequence[Seen], rule: Rule
) -> Gate:
    """The record; without proof one that decides nothing.

    What programs decided themselves comes before what profiles measured, and that placement fails
    before all else.
    """
    tried = [state.gate for state in states]
    for verdict in (GateVerdict.FAILS, GateVerdict.HELPS, GateVerdict.ON_TRIAL):
        if found := [gate for gate in tried if gate.verdict == verdict]:
            return Gate() if verdict == GateVerdict.FAILS else max(found, key=_peak)
    gates = [profile.gate for profile in profiles]
    if any(gate.verdict == GateVerdict.FAILS for gate in gates):
        return Gate()
    measured = [g for g in gates if g.blind.rounds and g.verdict != GateVerdict.MISTAKEN]
    if not measured:
        return Gate()
    largest = max(measured, key=_peak)
    separable = (short_share(seen, rule) or 0.0) * _long_share(profiles, seen, rule)
    if not _pays(largest, separable):
        return Gate()
    foretold = GateWaste(low=max(1, round(largest.blind.low * (1 - separable))))
    return Gate(GateVerdict.ON_TRIAL, blind=largest.blind, placed=foretold, peak=largest.peak)


def short_share(seen: Sequence[Seen], rule: Rule) -> float | None:
    """Of the bytes allocated: contexts whose objects die soon."""
    everything = sum(one.bytes for one in seen)
    short = sum(one.bytes for one in seen if dies_soon(rule.label(one.lives)))
    return short / everything if everything else None


def _long_share(profiles: Sequence[Profile], seen: Sequence[Seen], rule: Rule) -> float:
    """Of the bytes alive at the end: contexts whose objects live longer."""
    labels = {(one.codes, one.frames, one.size): rule.label(one.lives) for one in seen}
    alive = long = 0
    for profile in profiles:
        for context in profile.contexts:
            label = labels.get((context.codes, context.frames, context.bytes), MIXED)
            alive += context.censored_bytes
            long += context.censored_bytes * (label != MIXED and not dies_soon(label))
    return long / alive if alive else 0.0


def _pays(gate: Gate, separable: float) -> bool:
    """`separable`: the share of the pinned bytes that placement would not pin."""
    blind = gate.blind
    is_fragmented = blind.low * gate.peak >= _PINNED_MIB * 1000 and blind.ratio >= _SPARSE_PERMILLE
    return is_fragmented and blind.low * separable >= _SAVED_PERMILLE


def _peak(gate: Gate) -> int:
    return gate.peak

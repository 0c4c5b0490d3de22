# SPDX-License-Identifier: Apache-2.0
"""Whether to use a model: what its evidence was worth where it was measured, and what it may save.

`yes`      right on 9 of 10 bytes that it was not learned from, hardly ever too short, and lives
           differ enough
`no`       wrong too often, or the lives do not separate, or the gate found that it does not help
`unknown`  not measured on another run, or the evidence is too thin

A prediction that is too short lets an object pin a page. One that is too long costs what it covers,
so it counts by bytes: in Redis, small replies that outlive a class at times are a fifth of the
allocations and a thousandth of the bytes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llamalloc.formats import histogram
from llamalloc.formats.learned_state import Gate, GateVerdict, LearnedState
from llamalloc.formats.profile import Profile
from llamalloc.learning import contexts, saving
from llamalloc.learning.context_tree import Rule
from llamalloc.learning.contexts import Seen
from llamalloc.learning.evidence import ENOUGH_SHORT
from llamalloc.learning.labels import dies_soon
from llamalloc.learning.placement import short_share
from llamalloc.learning.trial import Trial

GOOD = 0.9
MOST_PINS = 0.02
SHORT_SHARE = 0.5  # of the bytes allocated: below, lives do not separate
WANTED = 0.98  # of the allocations should belong to contexts with enough samples; of state files:
# of the samples to decided ones
_MIB = 1 << 20
_ONE_RUN = "It was not measured on another run: add a profile of a second one."
_STATES_ONLY = (
    "Nothing was measured on another run, since state files do not hold single runs: add a profile "
    "(llamalloc record)."
)
_LITTLE = "Objects that die within some seconds take so much on average."


@dataclass(frozen=True)
class Verdict:
    """`use`: yes, no or unknown; `reasons`: sentences. Shares 0 to 1; None: not known."""

    use: str
    reasons: tuple[str, ...]
    right: float | None
    right_bytes: float | None
    short_share: float | None
    saves_bytes: float | None
    saves_share: float | None
    more_seconds: float
    more_runs: int  # by state files alone, which do not say how long their runs took

    def to_json(self) -> dict:
        """For --json."""
        return {**vars(self), "reasons": list(self.reasons)}


def judge(
    trial: Trial,
    measured_on_run: bool,
    seen: Sequence[Seen],
    profiles: Sequence[Profile],
    states: Sequence[LearnedState],
    rule: Rule,
) -> Verdict:
    """The verdict on a model. `measured_on_run`: on a run that it was not learned from."""
    short, share = short_share(seen, rule), _saves_share(states)
    saves = _saves_bytes(seen, profiles, rule)
    more = _more_seconds(seen, profiles)
    runs = 0 if profiles else _more_runs(states, rule)
    steps = (
        _by_measurement(trial, measured_on_run, _ONE_RUN if profiles else _STATES_ONLY),
        _by_separation(short),
        _by_gate(states),
    )
    uses = [use for use, _ in steps if use]
    use = "no" if "no" in uses else uses[-1]
    reasons = [reason for _, reason in steps if reason]
    if share is None and saves is not None and use != "no":
        size = f"{saves / _MIB:,.0f} MiB"
        reasons.append(f"It can save at most {size} after a load. {_LITTLE}")
    if more > 0:
        wanted = f"{_percent(WANTED)} of the allocations"
        reasons.append(
            f"The evidence is thin: record about {_span(more)} more, so that contexts of {wanted} "
            f"have {ENOUGH_SHORT} samples."
        )
    if runs > 0:
        so_far = sum(state.runs for state in states)
        reasons.append(
            f"The evidence is thin: {_count(runs, 'more run')} (so far: {so_far}) or longer runs "
            f"are needed, so that contexts of {_percent(WANTED)} of the samples are decided. Most "
            f"contexts need {ENOUGH_SHORT} samples."
        )
    total = trial.total
    return Verdict(
        use=use,
        reasons=tuple(reasons),
        right=total and total.right_allocations,
        right_bytes=total and total.right_bytes,
        short_share=short,
        saves_bytes=saves,
        saves_share=share,
        more_seconds=more,
        more_runs=runs,
    )


def _by_measurement(trial: Trial, measured_on_run: bool, otherwise: str) -> tuple[str, str]:
    """By what it was worth on another run. `otherwise`: why that is not known."""
    total = trial.total
    if total is None or not measured_on_run:
        return "unknown", otherwise
    right = _percent(total.right_allocations)
    said = (
        f"On another run it gave {right} of the allocations ({_percent(total.right_bytes)} of the "
        f"bytes) the right page group, and {_percent(trial.pins)} one that is too short for them."
    )
    is_good = total.right_bytes >= GOOD and trial.pins <= MOST_PINS
    if is_good:
        return "yes", said
    wanted = f"{_percent(GOOD)} of the bytes, and at most {_percent(MOST_PINS)} too short"
    return "no", f"{said} Wanted: {wanted}."


def _by_separation(short: float | None) -> tuple[str, str]:
    """Placement by lifetime pays where most of what is allocated dies soon."""
    if short is None or short >= SHORT_SHARE:
        return "", ""
    return "no", (
        f"Lives do not separate: only {_percent(short)} of the bytes belong to contexts whose "
        "objects die within some seconds."
    )


def _by_gate(states: Sequence[LearnedState]) -> tuple[str, str]:
    """By what programs measured themselves; of several that decided alike, the largest load."""
    for verdict, use, said in _DECIDED:
        if found := [state.gate for state in states if state.gate.verdict == verdict]:
            return use, said.format(saving=saving.clause(max(found, key=_peak)))
    return "", ""


_DECIDED = (
    (
        GateVerdict.FAILS,
        "no",
        "The program measured itself that placement by lifetime does not help it: {saving}.",
    ),
    (
        GateVerdict.HELPS,
        "yes",
        "The program measured itself that placement by lifetime helps: {saving}.",
    ),
    (
        GateVerdict.ON_TRIAL,
        "",
        "Placement by lifetime is on trial: {saving}. One more run decides, if its load rises as "
        "high and falls again.",
    ),
    (
        GateVerdict.MISTAKEN,
        "",
        "Predictions did not hold when the program placed by them: {saving}. One more run shows it "
        "how objects live now.",
    ),
)


def _peak(gate: Gate) -> int:
    return gate.peak


def _saves_bytes(seen: Sequence[Seen], profiles: Sequence[Profile], rule: Rule) -> float | None:
    """The average size of what dies soon: allocated a second x mean lifetime (Little's law)."""
    duration = sum(profile.duration_ns for profile in profiles)
    if not duration:
        return None
    return sum(one.bytes * _mean_ns(one) / duration for one in seen
               if dies_soon(rule.label(one.lives)))  # fmt: skip


def _mean_ns(one: Seen) -> float:
    deaths = sum(one.lives.dead.values())
    return sum(histogram.middle_ns(b) * n for b, n in one.lives.dead.items()) / max(deaths, 1)


def _saves_share(states: Sequence[LearnedState]) -> float | None:
    """Of the peak of live bytes, in troughs, as the gates measured it."""
    saved = [saving.saved_permille(s.gate) / 1000 for s in states if saving.is_measured(s.gate)]
    return sum(saved) / len(saved) if saved else None


def _more_seconds(seen: Sequence[Seen], profiles: Sequence[Profile]) -> float:
    """Until contexts of WANTED of the allocations have enough samples; 0: they have."""
    everything = sum(one.allocations for one in seen)
    covered = 0.0
    for one in sorted(seen, key=lambda one: -one.lives.total):
        covered += one.allocations
        if covered < WANTED * everything:
            continue
        seconds = sum(profile.duration_ns for profile in profiles) / 1e9
        return max(0.0, seconds * (ENOUGH_SHORT / max(one.lives.total, 1) - 1))
    return 0.0


def _more_runs(states: Sequence[LearnedState], rule: Rule) -> int:
    """Until contexts of WANTED of the samples are decided, if each run brings as many as so far.

    What decides is the first node on the way down whose parts do not differ; nodes below it are
    hardly ever kept.
    """
    kept = contexts.gather(states)
    runs = max(sum(state.runs for state in states), 1)
    everything = sum(lives.total for key, lives in kept.lives.items() if kept.levels[key] == 1)
    deciding = [lives for key, lives in kept.lives.items() if key not in kept.differs]
    open_ones = [lives.total for lives in deciding if rule.verdict(lives, kept=True) is None]
    missing = sum(open_ones)
    more = 0
    for samples in sorted(open_ones, reverse=True):
        if missing <= (1 - WANTED) * everything:
            break
        missing -= samples
        more = max(1, math.ceil(runs * (ENOUGH_SHORT / max(samples, 1) - 1)))
    return more


def _count(number: int, what: str) -> str:
    return f"about {number:,} {what}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    """Never 100 %: no measurement shows that."""
    return f"{min(100 * share, 99.9):.1f} %"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:,.0f} minutes"

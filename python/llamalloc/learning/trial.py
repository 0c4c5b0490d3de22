# SPDX-License-Identifier: Apache-2.0
"""How right each kind of evidence is on what it was not learned from: its trust.

    exact, name     learned from all runs but the one measured on
    prior, network  the same, without a tenth of the call sites and a tenth of the contexts: what
                    they are asked for is what no table knows

A context is *right* if it leads to the page group of its own samples, or to another one that costs
nothing:
  both die soon  within some seconds the page is free in any case. Two recordings of one load often
                 disagree so: the longest of 100,000 replies may take 2.9 s in one, and 3.2 s in
                 the other, on both sides of the border between two groups
  too short      so few samples outlive the deadline of the group that chance alone gives as many
                 once in twenty times or more, if 1 in 10,000 outlive
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from llamalloc.formats import histogram
from llamalloc.formats.model_file import NEARNESSES, NOT_MEASURED, Evidence
from llamalloc.learning import labels
from llamalloc.learning.context_tree import Rule
from llamalloc.learning.contexts import Seen
from llamalloc.learning.labels import GROUP_OF_CLASS, MIXED, dies_soon
from llamalloc.learning.lookup import KINDS, TRUSTED, Found, Lookup
from llamalloc.learning.survival import Lives, survival

Network = Callable[[Sequence[Seen]], np.ndarray]
"""Classes [N] that the network gives."""

_CHANCE = 0.05


@dataclass(frozen=True)
class KindScore:
    """What one kind of evidence answered, and how much of that was right; shares from 0 to 1."""

    kind: str
    contexts: int
    allocations: float
    bytes: float
    right_allocations: float
    right_bytes: float
    same_group: float


@dataclass(frozen=True)
class Trial:
    """All kinds in order, as the library asks them, and all together; empty: not measured."""

    kinds: tuple[KindScore, ...] = ()
    total: KindScore | None = None
    pins: float = 0.0  # share of allocations that got a group too short for them

    def to_json(self) -> dict:
        """For --json."""
        total = None if self.total is None else asdict(self.total)
        return {"kinds": [asdict(k) for k in self.kinds], "total": total, "pins": self.pins}


def run(evidence: Evidence, held: Sequence[Seen], network: Network | None, rule: Rule) -> Trial:
    """Asks the evidence for each held-out context, as the library would."""
    if not held:
        return Trial()
    lookup = Lookup(evidence)
    found = [lookup.find(one.codes, one.frames, one.size) for one in held]
    asked = [i for i, answer in enumerate(found) if lookup.asks_network(answer)]
    if network is not None and asked:
        classes = network([held[i] for i in asked])
        for i, chosen in zip(asked, classes, strict=True):
            found[i] = replace(found[i], kind="network", lifetime=int(chosen))
    rows = [_judged(one, answer, rule) for one, answer in zip(held, found, strict=True)]
    table = np.array([row[1:] for row in rows])
    kinds = np.array([row[0] for row in rows])
    scores = tuple(
        _score(kind, table[kinds == kind], table) for kind in (*KINDS[1:], KINDS[0])
        if (kinds == kind).any()
    )  # fmt: skip
    pins = float(table[table[:, 4] > 0, 0].sum() / table[:, 0].sum())
    return Trial(scores, _score("all", table, table), pins)


def with_trust(
    evidence: Evidence,
    held: Sequence[Seen],
    partial: Evidence,
    unknown: Sequence[Seen],
    network: Network | None,
    rule: Rule,
) -> Evidence:
    """The evidence with its trust measured.

    `held`: for the tables; none: not measured. `partial`: learned without what is hidden.
    `unknown`: contexts that `partial` was not learned from.
    """
    table = np.full(2, NOT_MEASURED, np.float32)
    if held:
        by_kind = {score.kind: score for score in run(evidence, held, None, rule).kinds}
        without = evidence._replace(exact_keys=evidence.exact_keys[:0],
                                    exact_answers=evidence.exact_answers[:0])  # fmt: skip
        by_name = {score.kind: score for score in run(without, held, None, rule).kinds}
        for i, (kind, scores) in enumerate((("exact", by_kind), ("name", by_name))):
            if kind in scores:
                table[i] = scores[kind].right_allocations
    prior, learned = _by_nearness(partial, unknown, network, rule)
    return evidence._replace(table_trust=table, prior_trust=prior, network_trust=learned)


def is_hidden(frames: tuple[str, ...], size: int) -> bool:
    """A tenth of the sites, and of the other contexts a tenth."""
    if _tenth("site", "\n".join(frames[:1])) == 0:
        return True
    return _tenth("context", f"{size}\n" + "\n".join(frames)) == 0


def choose(probabilities: np.ndarray) -> np.ndarray:
    """Classes [N] for placement: the twin of choose() in src/predict/evaluator.cc."""
    groups = np.array(GROUP_OF_CLASS)
    sums = np.stack(
        [probabilities[:, groups == g].sum(axis=1) for g in range(groups.max() + 1)], axis=1
    )
    best = sums.argmax(axis=1)
    within = np.where(groups[None, :] == best[:, None], probabilities, -1.0)
    return np.where(sums.max(axis=1) < TRUSTED, MIXED, within.argmax(axis=1))


def is_right(lives: Lives, truth: int, chosen: int) -> bool:
    """Whether the class leads to the page group of `truth`, the samples' own, or costs nothing."""
    if GROUP_OF_CLASS[truth] == GROUP_OF_CLASS[chosen] or (dies_soon(truth) and dies_soon(chosen)):
        return True
    return chosen < truth and is_consistent(lives, chosen)


def is_consistent(lives: Lives, chosen: int) -> bool:
    """Whether so many outlivers of the class's page group can be chance."""
    deadline = histogram.bucket_of(labels.deadline_ns(chosen))
    outliving = round(float(survival(lives).after[deadline]) * lives.total)
    return _chance_of(outliving, labels.DEFAULT_TAIL * lives.total) >= _CHANCE


def _chance_of(least: int, expected: float) -> float:
    """That a Poisson variable is `least` or more."""
    fewer, term = 0.0, math.exp(-expected)
    for k in range(min(least, 10_000)):
        fewer += term
        term *= expected / (k + 1)
    return 1 - fewer


def _judged(one: Seen, answer: Found, rule: Rule) -> tuple:
    """Kind, allocations, bytes, right, of the same group, too short."""
    truth = rule.label(one.lives)
    same = GROUP_OF_CLASS[truth] == GROUP_OF_CLASS[answer.lifetime]
    right = is_right(one.lives, truth, answer.lifetime)
    too_short = answer.lifetime < truth and not right
    return answer.kind, one.allocations, one.bytes, right, same, too_short


def _score(kind: str, rows: np.ndarray, every: np.ndarray) -> KindScore:
    allocations, size, right, same = rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3]
    return KindScore(
        kind=kind,
        contexts=len(rows),
        allocations=float(allocations.sum() / every[:, 0].sum()),
        bytes=float(size.sum() / every[:, 1].sum()),
        right_allocations=float((allocations * right).sum() / allocations.sum()),
        right_bytes=float((size * right).sum() / size.sum()),
        same_group=float((allocations * same).sum() / allocations.sum()),
    )


def _by_nearness(
    partial: Evidence, unknown: Sequence[Seen], network: Network | None, rule: Rule
) -> tuple[np.ndarray, np.ndarray]:
    """The trust of prior and network, where neither table answers."""
    lookup = Lookup(partial._replace(prior_trust=np.ones(len(NEARNESSES), np.float32)))
    found = [(one, lookup.find((), one.frames, one.size)) for one in unknown]
    asked = [(one, answer) for one, answer in found if answer.kind in ("prior", "none")]
    prior = np.full(len(NEARNESSES), NOT_MEASURED, np.float32)
    learned = prior.copy()
    classes = network([one for one, _ in asked]) if network is not None and asked else None
    weights = np.array([one.allocations for one, _ in asked])
    near = np.array([answer.nearness for _, answer in asked])
    by_prior = np.array([_judged(one, answer, rule)[3] for one, answer in asked])
    for n in set(near.tolist()):
        mask = near == n
        prior[n] = weights[mask & by_prior].sum() / weights[mask].sum() if n else NOT_MEASURED
        if classes is None:
            continue
        by_network = np.array([
            _judged(one, replace(answer, lifetime=int(chosen)), rule)[3]
            for (one, answer), chosen in zip(asked, classes, strict=True)
        ])  # fmt: skip
        learned[n] = weights[mask & by_network].sum() / weights[mask].sum()
    return prior, learned


def _tenth(what: str, text: str) -> int:
    return hashlib.sha256(f"{what}\n{text}".encode()).digest()[0] * 10 // 256

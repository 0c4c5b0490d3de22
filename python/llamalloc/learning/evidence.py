# SPDX-License-Identifier: Apache-2.0
"""The class that follows from counts of sampled lifetimes: the twin of src/learning/evidence.cc."""

from itertools import accumulate

from llamalloc.formats.contracts import lifetime_classes
from llamalloc.formats.learned_state import CLASSES, Node

ENOUGH_SHORT = 32  # samples before objects are taken for short-lived
ENOUGH_LONG = 2  # and for long-lived
TAIL = 1e-4  # share of objects that may outlive their class
MOST = 0.5
NEARLY_ALL = 0.95
FEW_DIED = 0.1
STAYS, STAYS_SURELY = 2, 3  # classes between the longest life seen and the oldest object


def verdict(node: Node, tail: float = TAIL) -> str | None:
    """The name of the lifetime class, or None: too few samples. At most `tail` may outlive it."""
    if node.samples < ENOUGH_LONG:
        return None
    after = survival(node)
    chosen = _quantile(after, tail)
    if chosen == CLASSES:
        in_flight = _gap(node) < STAYS
        if in_flight and after[-1] >= MOST and not _outlives_all_bounds(node, after):
            return None
        seen = [c for c in range(CLASSES) if node.deaths[c] or node.young[c]]
        chosen = seen[-1] if in_flight else _index("never")
    if not _is_permanent(chosen) and node.samples < ENOUGH_SHORT:
        return None
    most = 1 - FEW_DIED if _gap(node) < STAYS_SURELY else MOST
    return "mixed" if _is_trap(chosen, after, most) else lifetime_classes()[chosen].name


def lives_long(node: Node) -> bool:
    """Whether enough samples outlived what dies soon, and nearly all."""
    soon = sum(node.deaths[c] + node.young[c] for c in range(CLASSES) if dies_soon(c))
    return node.samples - soon >= ENOUGH_LONG and soon <= FEW_DIED * node.samples


def dies_soon(number: int) -> bool:
    """Whether the pages of a class have a deadline of seconds."""
    return lifetime_classes()[number].page_group in ("transient", "brief")


def _gap(node: Node) -> int:
    """Classes from the longest life seen to the oldest object; 0: none has lived long."""
    oldest = max((c for c in range(CLASSES) if node.young[c]), default=-1)
    longest = max((c for c in range(CLASSES) if node.deaths[c]), default=-1)
    if node.elders == 0 or oldest <= longest:
        return 0
    return CLASSES if longest < 0 else oldest - longest


def _outlives_all_bounds(node: Node, after: list[float]) -> bool:
    """Nearly all outlive the last bound in time, and enough have: no class lies above."""
    return after[-2] >= NEARLY_ALL and node.deaths[-1] + node.young[-1] >= ENOUGH_LONG


def survival(node: Node) -> list[float]:
    """The share of a context's objects that outlives each class (Kaplan and Meier, 1958)."""
    leaving = [d + y for d, y in zip(node.deaths, node.young, strict=True)]
    at_risk = [node.samples - gone for gone in accumulate(leaving, initial=0)]
    steps = (1 - d / r if d else 1.0 for d, r in zip(node.deaths, at_risk, strict=False))
    return list(accumulate(steps, lambda alive, step: alive * step))


def _quantile(after: list[float], outliving: float) -> int:
    return next((c for c in range(CLASSES) if after[c] <= outliving), CLASSES)


def _is_trap(chosen: int, after: list[float], most: float) -> bool:
    """Most objects die, nearly all of those before permanent pages would pay; some stay. `most`:
    the share that stays from which it is no trap."""
    if not _is_permanent(chosen) or after[-1] >= most:
        return False
    early = _quantile(after, after[-1] + (1 - NEARLY_ALL) * (1 - after[-1]))
    return early < CLASSES and not _is_permanent(early)


def _is_permanent(number: int) -> bool:
    return lifetime_classes()[number].page_group == "permanent"


def _index(name: str) -> int:
    return [row.name for row in lifetime_classes()].index(name)

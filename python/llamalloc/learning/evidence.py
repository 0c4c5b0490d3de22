# SPDX-License-Identifier: Apache-2.0
"""The class that follows from counts of sampled lifetimes: the twin of src/policy/evidence.cc."""

from itertools import accumulate

from llamalloc.formats.contracts import lifetime_classes
from llamalloc.formats.learned_state import CLASSES, Node

ENOUGH_SHORT = 32  # samples before objects are taken for short-lived
ENOUGH_LONG = 2  # and for long-lived
TAIL = 1e-4  # share of objects that may outlive their class
MOST = 0.5
NEARLY_ALL = 0.95


def verdict(node: Node) -> str | None:
    """The name of the lifetime class, or None: too few samples."""
    if node.samples < ENOUGH_LONG:
        return None
    after = _survival(node)
    chosen = _quantile(after, TAIL)
    if chosen == CLASSES:
        in_flight = not _stays(node)
        if in_flight and after[-1] >= MOST:
            return None
        seen = [c for c in range(CLASSES) if node.deaths[c] or node.young[c]]
        chosen = seen[-1] if in_flight else _index("never")
    if not _is_permanent(chosen) and node.samples < ENOUGH_SHORT:
        return None
    return "mixed" if _is_trap(chosen, after) else lifetime_classes()[chosen].name


def _stays(node: Node) -> bool:
    """Some have lived long, and a class or more lies between them and the longest life seen."""
    oldest = max((c for c in range(CLASSES) if node.young[c]), default=-1)
    longest = max((c for c in range(CLASSES) if node.deaths[c]), default=-1)
    return node.elders != 0 and (longest < 0 or oldest >= longest + 2)


def _survival(node: Node) -> list[float]:
    """The share that outlives each class (Kaplan and Meier, 1958)."""
    leaving = [d + y for d, y in zip(node.deaths, node.young, strict=True)]
    at_risk = [node.samples - gone for gone in accumulate(leaving, initial=0)]
    steps = (1 - d / r if d else 1.0 for d, r in zip(node.deaths, at_risk, strict=False))
    return list(accumulate(steps, lambda alive, step: alive * step))


def _quantile(after: list[float], outliving: float) -> int:
    return next((c for c in range(CLASSES) if after[c] <= outliving), CLASSES)


def _is_trap(chosen: int, after: list[float]) -> bool:
    """Most objects die, nearly all of those before permanent pages would pay; some stay."""
    if not _is_permanent(chosen) or after[-1] >= MOST:
        return False
    early = _quantile(after, after[-1] + (1 - NEARLY_ALL) * (1 - after[-1]))
    return early < CLASSES and not _is_permanent(early)


def _is_permanent(number: int) -> bool:
    return lifetime_classes()[number].page_group == "permanent"


def _index(name: str) -> int:
    return [row.name for row in lifetime_classes()].index(name)

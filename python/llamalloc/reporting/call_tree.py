# SPDX-License-Identifier: Apache-2.0
"""Calling contexts of a profile as one tree of calls, as a flame graph shows them.

    main ─┬─ call ─┬─ setCommand ─── zmalloc     each node: what all contexts below it hold
          │        └─ getCommand ─── zmalloc
          └─ loadServerConfig ────── zmalloc

Every node has one value for each view (allocated, live, ...). Of a difference it has three:
before, after, and a width, which is the larger of the two in each leaf, so that both fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from llamalloc.formats import histogram
from llamalloc.formats.contracts import lifetime_classes
from llamalloc.formats.profile import Context, Profile
from llamalloc.reporting.frames import demangled

LONG = "le_10s"  # what lives longer than this class is long-lived
LEAST_SHARE = 2e-4  # of the total of a view; what is smaller in each view is left out
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")


@dataclass(frozen=True)
class View:
    """One thing to weigh contexts by. `of` gives bytes; `rate`: by time, when compared."""

    label: str
    of: Callable[[Context], float]
    rate: bool = False


@dataclass
class Node:
    """One call; `own`: what is allocated here itself."""

    name: str
    own: list[float]
    children: dict[str, Node] = field(default_factory=dict)

    def child(self, name: str) -> Node:
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = Node(name, [0.0] * len(self.own))
        return found


def long_lived_ns() -> int:
    """From this lifetime on an object is long-lived."""
    return next(row.upper_bound_ns for row in lifetime_classes() if row.name == LONG)


def long_lived_bytes(context: Context) -> float:
    """Estimate of the bytes that lived longer than long_lived_ns, or do so by now."""
    return context.deallocated_bytes * _older(context.lifetimes) + (
        context.censored_bytes * _older(context.censored_ages)
    )


def _older(lives: histogram.Histogram) -> float:
    total = histogram.total(lives)
    limit = long_lived_ns()
    over = sum(n for bucket, n in lives.items() if histogram.middle_ns(bucket) > limit)
    return over / total if total else 0.0


LIVE = View("live at the end", lambda c: c.censored_bytes)
ALLOCATED = View("allocated", lambda c: c.allocated_bytes, rate=True)
LONG_LIVED = View("long-lived (more than 10 s)", long_lived_bytes)
PEAK = View("live at the peak", lambda c: c.peak_bytes)


def views_of(*profiles: Profile) -> list[View]:
    """What these profiles can be weighed by."""
    peak = [PEAK] if all(profile.peak for profile in profiles) else []
    return [LIVE, *peak, LONG_LIVED, ALLOCATED]


def readable_names(profiles: Iterable[Profile], same_build: bool = True) -> dict[str, str]:
    """Frame name -> what is shown. Offsets without a name differ between builds: then module."""
    names = {name for p in profiles for c in p.contexts for name in c.frames}
    shown = {name: name.lstrip("?") or "?" for name in names} | demangled(names)
    return shown if same_build else {n: _OFFSET.sub("", text) for n, text in shown.items()}


def stack_of(context: Context, readable: dict[str, str]) -> tuple[str, ...]:
    """Frames as shown, innermost first."""
    return tuple(readable.get(name, name) for name in context.frames) or ("(no stack)",)


def tree(profile: Profile, views: list[View], readable: dict[str, str]) -> Node:
    """The calls of a profile; one value a view."""
    root = Node(profile.program, [0.0] * len(views))
    for context in profile.contexts:
        node = root
        for name in reversed(stack_of(context, readable)):
            node = node.child(name)
        for index, view in enumerate(views):
            node.own[index] += view.of(context)
    return root


def scale_of(view: View, profile: Profile) -> float:
    """By what a value is multiplied to be compared with another profile's."""
    return 1e9 / max(profile.duration_ns, 1) if view.rate else 1.0


def difference(
    before: Profile, after: Profile, views: list[View], readable: dict[str, str]
) -> Node:
    """The calls of both; three values a view: before, after, width."""
    root = Node(after.program, [0.0] * (3 * len(views)))
    for which, profile in enumerate((before, after)):
        for context in profile.contexts:
            node = root
            for name in reversed(stack_of(context, readable)):
                node = node.child(name)
            for index, view in enumerate(views):
                node.own[3 * index + which] += view.of(context) * scale_of(view, profile)
    _set_widths(root, len(views))
    return root


def _set_widths(root: Node, views: int) -> None:
    todo = [root]
    while todo:
        node = todo.pop()
        for index in range(views):
            node.own[3 * index + 2] = max(node.own[3 * index], node.own[3 * index + 1])
        todo.extend(node.children.values())


def totals(root: Node) -> dict[int, list[float]]:
    """id(node) -> its values with those of all nodes below it."""
    order, sums = [root], {}
    for node in order:
        order.extend(node.children.values())
    for node in reversed(order):
        below = [sums[id(child)] for child in node.children.values()]
        sums[id(node)] = [sum(values) for values in zip(node.own, *below, strict=True)]
    return sums


def as_lists(root: Node, widths: list[int]) -> list:
    """[name, values, children] for the page; `widths`: places of values that weigh a view.

    Children are ordered by name, so that two pages of one program look alike.
    """
    sums = totals(root)
    least = [LEAST_SHARE * sums[id(root)][place] for place in widths]

    def shown(node: Node) -> bool:
        values = sums[id(node)]
        return any(values[p] > floor for p, floor in zip(widths, least, strict=True))

    def lists(node: Node) -> list:
        children = sorted(filter(shown, node.children.values()), key=lambda n: n.name)
        return [node.name, [round(value) for value in sums[id(node)]], list(map(lists, children))]

    return lists(root)

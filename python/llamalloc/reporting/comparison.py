# SPDX-License-Identifier: Apache-2.0
"""What changed from one profile to another, by calling context.

Contexts are the same if the names of all their frames are: so two builds can be compared. Of two
builds, frames without a name go by their module alone. What was allocated is compared by time,
since no two recordings last equally long.
"""

from __future__ import annotations

from dataclasses import dataclass

from llamalloc.formats.profile import Profile
from llamalloc.reporting.call_tree import (
    ALLOCATED,
    LIVE,
    View,
    readable_names,
    scale_of,
    stack_of,
    views_of,
)

SHOWN = 15


@dataclass(frozen=True)
class ChangedRow:
    """One calling context: bytes by view (call_tree.View.label) before and after."""

    frames: tuple[str, ...]
    before: dict[str, float]
    after: dict[str, float]

    def change(self, view: str) -> float:
        return self.after[view] - self.before[view]


@dataclass(frozen=True)
class Comparison:
    """`totals`: view -> before, after. `grown`, `shrunk`: by live bytes, largest change first;
    `faster`, `slower`: by bytes allocated a second."""

    program: str
    files: tuple[str, str]
    seconds: tuple[float, float]
    same_build: bool
    totals: dict[str, tuple[float, float]]
    grown: list[ChangedRow]
    shrunk: list[ChangedRow]
    faster: list[ChangedRow]
    slower: list[ChangedRow]


def names_of(before: Profile, after: Profile) -> tuple[dict[str, str], bool]:
    """Readable names, and whether the builds are known to be the same."""
    same = before.build == after.build != 0
    return readable_names([before, after], same), same


def compare(before: Profile, after: Profile) -> Comparison:
    """The difference of two profiles."""
    readable, same = names_of(before, after)
    views = views_of(before, after)
    rows = _rows(before, after, views, readable)
    live, rate = LIVE.label, ALLOCATED.label
    return Comparison(
        program=after.program,
        files=(str(before.path), str(after.path)),
        seconds=(before.duration_ns / 1e9, after.duration_ns / 1e9),
        same_build=same,
        totals={
            v.label: (sum(r.before[v.label] for r in rows), sum(r.after[v.label] for r in rows))
            for v in views
        },
        grown=_largest(rows, live, 1),
        shrunk=_largest(rows, live, -1),
        faster=_largest(rows, rate, 1),
        slower=_largest(rows, rate, -1),
    )


def _rows(
    before: Profile, after: Profile, views: list[View], readable: dict[str, str]
) -> list[ChangedRow]:
    found: dict[tuple[str, ...], ChangedRow] = {}
    for which, profile in enumerate((before, after)):
        for context in profile.contexts:
            stack = stack_of(context, readable)
            row = found.get(stack)
            if row is None:
                zeros = {view.label: 0.0 for view in views}
                row = found[stack] = ChangedRow(stack, zeros, dict(zeros))
            side = (row.before, row.after)[which]
            for view in views:
                side[view.label] += view.of(context) * scale_of(view, profile)
    return list(found.values())


def _largest(rows: list[ChangedRow], view: str, sign: int) -> list[ChangedRow]:
    changed = [row for row in rows if sign * row.change(view) >= 1]
    return sorted(changed, key=lambda row: -sign * row.change(view))[:SHOWN]

# SPDX-License-Identifier: Apache-2.0
"""Live bytes along time and at their peak, by call site, from what a profile holds.

At each moment the profile names the contexts that held most; what the others held is `other`.
The last moment is that of the writing.
"""

from __future__ import annotations

from dataclasses import dataclass

from llamalloc.formats.profile import Profile
from llamalloc.reporting.call_tree import readable_names, stack_of

SHOWN = 8
_MEMORY = ("operator new", "std::", "__gnu_cxx::", "void* std::", "malloc", "calloc", "realloc")


@dataclass(frozen=True)
class Timeline:
    """`seconds` since sampling began; the rest in bytes, one value a moment.

    `sites`: the call sites that held most at their own highest, the largest first.
    """

    seconds: list[float]
    total: list[int]
    sites: dict[str, list[int]]

    @property
    def other(self) -> list[int]:
        """What the sites that are not named held."""
        named = [sum(values) for values in zip(*self.sites.values(), strict=True)]
        known = named or [0] * len(self.total)
        return [max(t - n, 0) for t, n in zip(self.total, known, strict=True)]


def site_of(stack: tuple[str, ...], shown: int = 3) -> str:
    """The innermost calls that are not the C++ library's."""
    own = [name for name in stack if not name.startswith(_MEMORY)] or list(stack)
    return " < ".join(own[:shown])


def timeline(profile: Profile) -> Timeline | None:
    """None: the profile does not hold it."""
    if not profile.timeline:
        return None
    readable = readable_names([profile])
    count = len(profile.timeline)
    held: dict[str, list[int]] = {}
    for context in profile.contexts:
        if not context.live:
            continue
        row = held.setdefault(site_of(stack_of(context, readable)), [0] * count)
        for point, size in context.live.items():
            if point < count:
                row[point] += size
    largest = sorted(held, key=lambda site: max(held[site]), reverse=True)[:SHOWN]
    return Timeline(
        [m.at_ns / 1e9 for m in profile.timeline],
        [m.bytes for m in profile.timeline],
        {site: held[site] for site in largest},
    )

# SPDX-License-Identifier: Apache-2.0
"""Which profiles are of one run of a program: evidence counts once, and a run that is held out must
be another one.

A process can write its profile again and again (`profile_flush`, `/debug/pprof/lifetimes`), and
each holds all of those before.
"""

from __future__ import annotations

from collections.abc import Sequence

from llamalloc.formats.profile import Profile, ProfileError

_SAME_START = 200_000_000  # ns; a start is the time of the day less the time that passed
_SHARE = 0.9  # of the contexts: rare ones may come to count by fewer frames


def of_same_run(a: Profile, b: Profile) -> bool:
    """Whether one of them is a copy of the other, or an earlier look at the same process."""
    if (a.time_ns, a.duration_ns, a.program) == (b.time_ns, b.duration_ns, b.program):
        return True
    if a.program != b.program or abs(a.time_ns - b.time_ns) > _SAME_START:
        return False
    if a.duration_ns == b.duration_ns:
        return False
    first, second = sorted((a, b), key=lambda one: one.duration_ns)
    earlier, later = _dead(first), _dead(second)
    grown = sum(later.get(frames, 0) >= objects for frames, objects in earlier.items())
    return grown >= _SHARE * max(len(earlier), 1)


def _dead(one: Profile) -> dict[tuple[str, ...], int]:
    """Objects that died, by where they were allocated."""
    found: dict[tuple[str, ...], int] = {}
    for context in one.contexts:
        found[context.frames] = found.get(context.frames, 0) + context.deallocated_objects
    return {frames: objects for frames, objects in found.items() if objects}


def distinct(profiles: Sequence[Profile]) -> list[Profile]:
    """One profile a run: of several the longest, which holds the others."""
    runs: list[Profile] = []
    for found in profiles:
        at = next((i for i, other in enumerate(runs) if of_same_run(found, other)), None)
        if at is None:
            runs.append(found)
        elif found.duration_ns > runs[at].duration_ns:
            runs[at] = found
    return runs


def check_held(held: Sequence[Profile], given: Sequence[Profile]) -> None:
    """Raises ProfileError for a hold-out profile of a run that is learned."""
    for found in held:
        for learned in given:
            if of_same_run(found, learned):
                cause = f"is of the same run as {learned.path}, which is learned"
                raise ProfileError(found.path, cause, "hold out a profile of another run")

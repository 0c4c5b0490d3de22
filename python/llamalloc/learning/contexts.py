# SPDX-License-Identifier: Apache-2.0
"""What profiles and state files saw, by context, in one currency: Lives.

    profiles --pool--> Seen(codes, frames, size, lives, allocations, bytes)   one a context
    states   --gather--> Kept: key of a node -> lives, and whether what lies deeper differs

A context of two builds is two contexts by its codes, and one by its names.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from llamalloc.formats import histogram
from llamalloc.formats.contracts import lifetime_classes
from llamalloc.formats.learned_state import CLASSES, LearnedState, Node
from llamalloc.formats.profile import Context, Profile
from llamalloc.learning import labels
from llamalloc.learning.survival import Lives

_LONGEST_NS = 2e12  # stands for more than 1,000 s


@dataclass
class Seen:
    """One context: `codes` and `frames` innermost first, estimates for the whole process."""

    codes: tuple[int, ...]
    frames: tuple[str, ...]
    size: int
    lives: Lives
    allocations: float
    bytes: float


@dataclass
class Kept:
    """Nodes of state files: lives by key, levels, and the keys of those whose parts differ."""

    lives: dict[int, Lives] = field(default_factory=dict)
    levels: dict[int, int] = field(default_factory=dict)
    differs: set[int] = field(default_factory=set)


def add(one: Lives, other: Lives) -> Lives:
    """The samples of both."""
    return Lives(
        dead=dict(Counter(one.dead) + Counter(other.dead)),
        young=dict(Counter(one.young) + Counter(other.young)),
        elders=one.elders + other.elders,
        immortal=one.immortal + other.immortal,
    )


def total(parts: Iterable[Lives]) -> Lives:
    """The samples of all."""
    dead: Counter[int] = Counter()
    young: Counter[int] = Counter()
    elders = immortal = 0
    for part in parts:
        dead.update(part.dead)
        young.update(part.young)
        elders += part.elders
        immortal += part.immortal
    return Lives(dict(dead), dict(young), elders, immortal)


def pool(profiles: Sequence[Profile]) -> list[Seen]:
    """The contexts of all profiles, those of most allocations first."""
    found: dict[tuple, Seen] = {}
    for profile in profiles:
        for context in profile.contexts:
            if context.sampled == 0:
                continue
            key = (context.codes, context.frames, context.bytes)
            lives = lives_of(context, profile)
            seen = found.get(key)
            if seen is None:
                found[key] = Seen(*key, lives, 0.0, 0.0)
                seen = found[key]
            else:
                seen.lives = add(seen.lives, lives)
            seen.allocations += max(context.allocated_objects, 1)
            seen.bytes += max(context.allocated_bytes, 1)
    return sorted(found.values(), key=lambda seen: (-seen.allocations, seen.codes, seen.size))


def lives_of(context: Context, profile: Profile) -> Lives:
    """The samples of one context in one recording."""
    young, elders, immortal = {}, 0, 0
    for bucket, count in context.censored_ages.items():
        elder = labels.is_elder(bucket, profile.duration_ns)
        if elder and profile.exiting:
            immortal += count
            continue
        young[bucket] = count
        elders += count * elder
    return Lives(dict(context.lifetimes), young, elders, immortal)


def gather(states: Sequence[LearnedState]) -> Kept:
    """The nodes of all state files, counts of the same node added."""
    kept = Kept()
    for state in states:
        for node in state.nodes:
            known = kept.lives.get(node.key)
            lives = lives_of_node(node)
            kept.lives[node.key] = lives if known is None else add(known, lives)
            kept.levels[node.key] = node.level
            if node.differs:
                kept.differs.add(node.key)
    return kept


def lives_of_node(node: Node) -> Lives:
    """Counts by class as counts by bucket: each in the middle of its class."""
    dead = {bucket: n for bucket, n in zip(_MIDDLES, node.deaths, strict=True) if n}
    young = {bucket: n for bucket, n in zip(_MIDDLES, node.young, strict=True) if n}
    return Lives(dead, young, elders=min(node.elders, sum(young.values())))


def counts_of(lives: Lives) -> Node:
    """Counts by bucket as counts by class. What was never freed is the oldest of what is alive."""
    deaths, young = _by_class(lives.dead), _by_class(lives.young)
    young[-1] += lives.immortal
    elders = lives.elders + lives.immortal
    return Node(0, 1, deaths=tuple(deaths), young=tuple(young), elders=elders)


def _by_class(counts: histogram.Histogram) -> list[int]:
    by_class = [0] * CLASSES
    for bucket, count in counts.items():
        by_class[labels.class_of_bucket(bucket)] += count
    return by_class


def _middles() -> list[int]:
    bounds = [row.upper_bound_ns for row in lifetime_classes()[: CLASSES - 1]]
    return [histogram.bucket_of(bound / 3) for bound in bounds] + [histogram.bucket_of(_LONGEST_NS)]


_MIDDLES = _middles()

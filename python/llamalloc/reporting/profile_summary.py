# SPDX-License-Identifier: Apache-2.0
"""A lifetime profile summed up: how long objects lived, who allocated most, what stayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from llamalloc.formats import histogram
from llamalloc.formats.contracts import lifetime_classes
from llamalloc.formats.profile import Context, Profile
from llamalloc.reporting.history import Timeline, timeline

TOP = 15
ALIVE = "alive"


@dataclass(frozen=True)
class LifetimeRow:
    """Objects whose life ended within one class, or `alive` at the end; shares from 0 to 1."""

    name: str
    meaning: str
    objects: float
    bytes: float
    object_share: float
    byte_share: float


@dataclass(frozen=True)
class ContextRow:
    """One calling context; lifetimes in ns, None where nothing died."""

    frames: tuple[str, ...]
    size: int
    sampled: int
    allocated_bytes: int
    allocated_objects: int
    alive_bytes: int
    peak_bytes: int
    median_lifetime: float | None
    longest_lifetime: float | None


@dataclass(frozen=True)
class ProfileSummary:
    """`buckets`: (lifetime in ns, share of all objects) of the dead, ascending.

    `peak_bytes`, `peak_seconds`: when most was live; None and no `timeline` in older profiles.
    """

    file: str
    program: str
    seconds: float
    interval: int
    sampled: int
    contexts: int
    allocated_bytes: int
    alive_bytes: int
    exiting: bool
    lifetimes: list[LifetimeRow]
    top: list[ContextRow]
    survivors: list[ContextRow]
    buckets: list[tuple[float, float]]
    peak_bytes: int | None = None
    peak_seconds: float | None = None
    at_peak: list[ContextRow] = field(default_factory=list)
    timeline: Timeline | None = None


def summarise(profile: Profile) -> ProfileSummary:
    """Sums up one profile."""
    contexts = [c for c in profile.contexts if c.sampled]
    return ProfileSummary(
        file=str(profile.path),
        program=profile.program,
        seconds=profile.duration_ns / 1e9,
        interval=profile.sample_interval,
        sampled=sum(c.sampled for c in contexts),
        contexts=len(contexts),
        allocated_bytes=sum(c.allocated_bytes for c in contexts),
        alive_bytes=sum(c.censored_bytes for c in contexts),
        exiting=profile.exiting,
        lifetimes=_lifetimes(contexts),
        top=_largest(contexts, lambda c: c.allocated_bytes),
        survivors=_largest(contexts, lambda c: c.censored_bytes),
        buckets=_buckets(contexts),
        peak_bytes=profile.peak.bytes if profile.peak else None,
        peak_seconds=profile.peak.at_ns / 1e9 if profile.peak else None,
        at_peak=_largest(contexts, lambda c: c.peak_bytes),
        timeline=timeline(profile),
    )


def _largest(contexts: list[Context], key: Callable[[Context], int]) -> list[ContextRow]:
    ranked = sorted((c for c in contexts if key(c)), key=key, reverse=True)[:TOP]
    return [_row(c) for c in ranked]


def _row(context: Context) -> ContextRow:
    lives = context.lifetimes
    return ContextRow(
        frames=context.frames,
        size=context.bytes,
        sampled=context.sampled,
        allocated_bytes=context.allocated_bytes,
        allocated_objects=context.allocated_objects,
        alive_bytes=context.censored_bytes,
        peak_bytes=context.peak_bytes,
        median_lifetime=_quantile(lives, 0.5) if lives else None,
        longest_lifetime=histogram.middle_ns(max(lives)) if lives else None,
    )


def _quantile(lives: histogram.Histogram, share: float) -> float:
    wanted, seen = share * histogram.total(lives), 0
    for bucket, count in sorted(lives.items()):
        seen += count
        if seen >= wanted:
            return histogram.middle_ns(bucket)
    raise ValueError("an empty histogram has no quantiles")


def _dead_by_bucket(contexts: list[Context]) -> dict[int, list[float]]:
    """Bucket -> [objects, bytes], estimated for the whole process."""
    sums: dict[int, list[float]] = {}
    for c in contexts:
        dead = histogram.total(c.lifetimes)
        for bucket, count in c.lifetimes.items():
            entry = sums.setdefault(bucket, [0.0, 0.0])
            entry[0] += c.deallocated_objects * count / dead
            entry[1] += c.deallocated_bytes * count / dead
    return dict(sorted(sums.items()))


def _lifetimes(contexts: list[Context]) -> list[LifetimeRow]:
    timed = [k for k in lifetime_classes() if k.upper_bound_ns or k.name.startswith("gt_")]
    sums = {name: [0.0, 0.0] for name in [*(k.name for k in timed), ALIVE]}
    for bucket, (objects, size) in _dead_by_bucket(contexts).items():
        life = histogram.middle_ns(bucket)
        name = next(k.name for k in timed if not k.upper_bound_ns or life <= k.upper_bound_ns)
        sums[name][0] += objects
        sums[name][1] += size
    sums[ALIVE][0] = sum(c.censored_objects for c in contexts)
    sums[ALIVE][1] = sum(c.censored_bytes for c in contexts)
    meanings = {k.name: k.meaning for k in timed} | {ALIVE: "still alive at the end"}
    all_objects, all_bytes = (sum(v[i] for v in sums.values()) or 1.0 for i in (0, 1))
    return [
        LifetimeRow(name, meanings[name], n, size, n / all_objects, size / all_bytes)
        for name, (n, size) in sums.items()
    ]


def _buckets(contexts: list[Context]) -> list[tuple[float, float]]:
    objects = sum(c.allocated_objects for c in contexts) or 1
    dead = _dead_by_bucket(contexts).items()
    return [(histogram.middle_ns(bucket), n / objects) for bucket, (n, _) in dead]

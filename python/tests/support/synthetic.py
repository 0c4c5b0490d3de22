# SPDX-License-Identifier: Apache-2.0
"""A made-up server whose profiles are as awkward as real ones.

Every allocation goes through the same few wrappers, so that sites say little; the lifetime hangs on
a frame further out (a request, a connection, the store, start-up); names are C, mangled C++ and
unknown ones. A `version` other than 0 renames helpers, which makes contexts that were never seen.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llamalloc.formats import histogram, tokens
from llamalloc.formats.profile import Context, Profile

SECOND = 10**9
DURATION_NS = 60 * SECOND
WRAPPERS = (("zmalloc",), ("zmalloc", "sdsnewlen"), ("_Znwm", "_ZN4util6Buffer4growEm"))


@dataclass(frozen=True)
class Role:
    """An outer frame and what its objects do. `stays`: share still alive at exit, and old."""

    frame: str
    median_s: float
    spread: float
    stays: float
    expected_class: str


ROLES = (
    Role("processCommand", 0.0002, 0.5, 0.0, "le_10ms"),
    Role("_ZN3net7Request6handleEv", 0.02, 0.3, 0.0, "le_100ms"),
    Role("expireBatch", 0.2, 0.2, 0.0, "le_3s"),
    Role("acceptConnection", 4.0, 0.1, 0.0, "le_10s"),
    Role("?server+0x4f10", 25.0, 0.1, 0.0, "le_100s"),
    Role("dbAdd", 1.0, 0.2, 1.0, "never"),
    Role("loadConfig", 0.5, 0.5, 0.8, "never"),
    Role("cacheLookup", 0.001, 0.5, 0.05, "mixed"),
)


def profile(
    *,
    seed: int = 0,
    contexts: int = 120,
    version: int = 0,
    exiting: bool = True,
    samples: int = 400,
) -> Profile:
    """A run of the server. `seed` draws the lifetimes, not the program; `contexts` is its size."""
    shapes = np.random.default_rng(7)
    draws = np.random.default_rng(seed)
    made = [_context(i, shapes, draws, version, samples) for i in range(contexts)]
    start = 1 + 10 * seed + version  # no two runs begin at once
    return Profile(Path("server.pb.gz"), "server", exiting, start, DURATION_NS, 524288, tuple(made))


def _context(i: int, shapes, draws, version: int, samples: int) -> Context:
    role = ROLES[i % len(ROLES)]
    helpers = [f"helper{shapes.integers(40)}Step" for _ in range(shapes.integers(1, 9))]
    if version:
        helpers[0] = f"renamed{version}In{i}"
    middle = [*helpers[:-1], role.frame, helpers[-1]]
    frames = (*WRAPPERS[shapes.integers(len(WRAPPERS))], *middle, "mainLoop", "main")
    size = tokens.size_bucket(int(shapes.integers(16, 4000)))
    count = max(2, int(samples * shapes.lognormal(0, 1)))
    return _sampled(frames, size, role, count, draws)


def _sampled(frames, size: int, role: Role, count: int, draws) -> Context:
    alive = round(role.stays * count)
    dead_ns = role.median_s * SECOND * draws.lognormal(0, role.spread, count - alive)
    lifetimes, ages = _histogram(dead_ns), _histogram(draws.uniform(15, 55, alive) * SECOND)
    numbers = {"bytes": size, "sampled": count}
    if len(dead_ns):
        numbers |= {"avg_lifetime": int(dead_ns.mean()), "stddev_lifetime": int(dead_ns.std())}
        numbers |= {"min_lifetime": int(dead_ns.min()), "max_lifetime": int(dead_ns.max())}
        numbers |= {"same_thread": len(dead_ns), "same_cpu": len(dead_ns) // 2}
    scale = 10
    dead = count - alive
    return Context(
        frames, size, count * scale, count * scale * size, dead * scale, dead * scale * size,
        alive * scale, alive * scale * size, lifetimes, ages, numbers,
    )  # fmt: skip


def _histogram(times_ns) -> dict[int, int]:
    buckets, counts = np.unique([histogram.bucket_of(t) for t in times_ns], return_counts=True)
    return {int(b): int(c) for b, c in zip(buckets, counts, strict=True)}

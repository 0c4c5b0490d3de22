# SPDX-License-Identifier: Apache-2.0
"""The cases of contracts/golden/labels.json: how the objects of a context ended, by lifetime class.

The simulator counts by class (src/sim/predictor.cc, `label`), training by histogram bucket. They
agree on all that died or stayed. Training weighs young survivors (Kaplan-Meier); the simulator
counts them where they are more than the tail. So of those, only plain stories are here.
"""

from dataclasses import dataclass

from llamalloc.formats.histogram import bucket_of
from llamalloc.learning.labels import label
from llamalloc.learning.survival import Lives

MS = 10**6
TIMES_NS = [5 * MS, 50 * MS, 500 * MS, 5000 * MS, 50_000 * MS, 500_000 * MS, 5_000_000 * MS]
BUCKETS = [bucket_of(time) for time in TIMES_NS]
"""One in the middle of each class that ends."""

TAILS = [1e-4, 0.01, 0.05]
ELDERS = [0, 1, 10, 60, 3000, 100_000]
FREED = [
    [0, 0, 0, 0, 0, 0, 0],
    [1, 0, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 3],
    [9991, 0, 0, 9, 0, 0, 0],
    [99_999, 0, 0, 1, 0, 0, 0],
    [9000, 700, 0, 40, 0, 0, 1],
    [0, 0, 90, 0, 0, 7, 0],
    [60, 0, 0, 0, 0, 0, 41],
    [0, 0, 0, 0, 970, 31, 0],
    [100_000, 3, 0, 0, 0, 2000, 0],
    [2, 3, 5, 7, 11, 13, 17],
    [499, 0, 0, 0, 0, 0, 1],
]
NO_YOUNG = [0] * 7
# (freed, elders, young): none; younger than others that died; older, few and many; stored objects.
YOUNG = [
    ([9000, 1000, 0, 0, 0, 0, 0], 0, [20, 0, 0, 0, 0, 0, 0]),
    ([900, 0, 0, 0, 0, 0, 0], 0, [0, 9, 0, 0, 0, 0, 0]),
    ([100, 0, 0, 0, 0, 0, 0], 0, [0, 3, 0, 0, 0, 0, 0]),
    ([100, 0, 50, 0, 0, 0, 0], 0, [0, 0, 0, 30, 0, 0, 0]),
    ([0, 0, 0, 0, 80, 0, 0], 0, [0, 0, 0, 0, 0, 9, 0]),
    ([0, 0, 0, 0, 0, 0, 0], 50, [3, 0, 0, 0, 0, 0, 0]),
    ([0, 0, 0, 0, 0, 0, 0], 0, [1, 0, 0, 0, 0, 0, 0]),
]


@dataclass(frozen=True)
class LabelCase:
    """freed, young: counts by class. elders: objects that stay. tail: what may outlive it."""

    freed: list[int]
    elders: int
    young: list[int]
    tail: float

    @property
    def label(self) -> int:
        """The class by the rule of training."""
        dead, young = (_by_bucket(counts) for counts in (self.freed, self.young))
        return label(Lives(dead, young, immortal=self.elders), tail=self.tail)


def _by_bucket(counts: list[int]) -> dict[int, int]:
    return {bucket: n for bucket, n in zip(BUCKETS, counts, strict=True) if n}


CASES = [
    LabelCase(freed, elders, NO_YOUNG, tail)
    for freed in FREED
    for elders in ELDERS
    for tail in TAILS
    if sum(freed) + elders > 0
]
CASES += [LabelCase(freed, elders, young, TAILS[0]) for freed, elders, young in YOUNG]

# SPDX-License-Identifier: Apache-2.0
"""Survival of one context's objects, from dead and still living samples.

    S(t)
    1.0 ----.
            '--.            S steps down where sampled objects died
    0.1        '-----....   plateau: what is left after the last death
        ----|----|----|---> t (log buckets)

Kaplan and Meier (1958): S is the product over buckets of 1 - deaths / at risk. An object that was
still alive when the recording ended counts as at risk up to its age and then leaves without dying,
so objects in flight at the end are not taken for immortals. Objects known never to have been freed
stay at risk for ever. Where departures have left less than 1 % of the survivors at risk, a single
death would halve the curve; from there on it stays level.
"""

from dataclasses import dataclass

import numpy as np

from llamalloc.formats import histogram
from llamalloc.formats.histogram import Histogram

_WATCHED_SHARE = 0.01


@dataclass(frozen=True)
class Lives:
    """Pooled samples of one context, as counts of sampled objects.

    `dead`: lifetimes. `young`: ages of those still alive whose fate is open. `elders`: those among
    `young` that had lived long when the recording ended. `immortal`: never freed before exit.
    """

    dead: Histogram
    young: Histogram
    elders: int = 0
    immortal: int = 0

    @property
    def total(self) -> int:
        """How many samples there are."""
        return histogram.total(self.dead) + histogram.total(self.young) + self.immortal


@dataclass(frozen=True)
class Survival:
    """S after each bucket. `last_bucket`: the greatest bucket with a death or a censored age."""

    after: np.ndarray
    last_bucket: int

    @property
    def plateau(self) -> float:
        """The share of objects that outlive every observation."""
        return float(self.after[-1])

    def quantile_bucket(self, outliving: float) -> int | None:
        """The first bucket after which at most `outliving` of the objects live; None: none is."""
        reached = np.flatnonzero(self.after <= outliving)
        return int(reached[0]) if reached.size else None


def survival(lives: Lives) -> Survival:
    """The Kaplan-Meier estimate; in a bucket deaths come before departures, as is usual.

    Needs at least one sample. `after` has shape [histogram.MAX_BUCKET + 1].
    """
    deaths = _dense(lives.dead)
    leaving = deaths + _dense(lives.young)
    at_risk = leaving[::-1].cumsum()[::-1] + lives.immortal
    after = np.ones_like(deaths)
    alive = 1.0
    for bucket in np.flatnonzero(deaths):
        if at_risk[bucket] < _WATCHED_SHARE * alive * lives.total:
            break
        alive *= 1.0 - deaths[bucket] / at_risk[bucket]
        after[bucket:] = alive
    last = max([*lives.dead, *lives.young], default=0)
    return Survival(after, last)


def _dense(counts: Histogram) -> np.ndarray:
    dense = np.zeros(histogram.MAX_BUCKET + 1)
    dense[list(counts)] = list(counts.values())
    return dense

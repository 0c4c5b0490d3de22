# SPDX-License-Identifier: Apache-2.0
"""What a program held over a run: its charge, and its RSS beside it, in bytes.

Each at the end, on average and at the peak; and the peak over the most that was live.
docs/measuring_memory.md says why it is the charge that counts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """`end`: when it was last seen."""

    end: int
    average: int
    peak: int


@dataclass(frozen=True)
class Memory:
    """`charge` None: the program had no memory control group. `live`: the most bytes that it had
    allocated at any time; 0: nobody counted them."""

    rss: Sizes
    charge: Sizes | None = None
    live: int = 0

    @property
    def over_live(self) -> float | None:
        """Peak of the charge, or of RSS where there is no group, over the most that was live."""
        return (self.charge or self.rss).peak / self.live if self.live else None

    def figures(self) -> dict[str, float]:
        """By the names of TITLES; what is not known is left out."""
        found: dict[str, float] = {"rss": self.rss.end, "average_rss": self.rss.average}
        found["peak_rss"] = self.rss.peak
        if self.charge:
            found["charge"], found["average_charge"] = self.charge.end, self.charge.average
            found["peak_charge"] = self.charge.peak
        return found | ({"over_live": self.over_live} if self.over_live else {})


# Of each figure: its head in a table. The order of the columns.
TITLES = {
    "charge": "charge",
    "average_charge": "average charge",
    "peak_charge": "peak charge",
    "over_live": "peak / live",
    "rss": "RSS",
    "average_rss": "average RSS",
    "peak_rss": "peak RSS",
}

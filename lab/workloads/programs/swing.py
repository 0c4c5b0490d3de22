# SPDX-License-Identifier: Apache-2.0
"""The microbenchmark of ASPLOS 2020, section 9.6, as a workload; see lab.workloads.swing."""

from __future__ import annotations

from lab.workloads.recipe import BuiltRecipe, Session, built


class Swing(BuiltRecipe):
    """A few small swings: the whole benchmark has 800 million allocations."""

    name = "swing"
    title = "64-byte objects, a heap that swings, one object in 10,000 stays (paper, section 9.6)"
    memory = "swings between 1 and 128 MB; survivors born all along"
    seconds = 1

    def command(self, session: Session) -> list[str]:
        """By the scale: the height of a swing; four swings."""
        peak = session.scaled(128, 2)
        survivors = max(1, peak * 1024 * 1024 // 64 * 4 // 10_000 * 64 // 1024)
        return [str(built("swing")), "--peak", str(peak), "--survivors", str(survivors)]

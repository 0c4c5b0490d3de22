# SPDX-License-Identifier: Apache-2.0
"""Measured object sizes under a load in waves: a generated trace, repeated by llamalloc-replay."""

from __future__ import annotations

import subprocess

from lab.places import BUILD, WORKLOADS
from lab.workloads.recipe import BuiltRecipe, Session, WorkloadError, target


class Waves(BuiltRecipe):
    """Sizes of a Google server. The replay calls malloc at one place, so contexts say nothing."""

    name = "waves"
    title = "sizes measured in a server, under steps of load; lives that no call site tells apart"
    memory = "waves between 30 and 240 MiB of objects of all sizes"
    seconds = 18

    def prepare(self, session: Session) -> None:
        """The trace, by the seed. It has the same number of waves at each scale: the heap and the
        time both follow the root of the scale, so their product, the events, follows the scale."""
        root = session.scale**0.5
        target("llamalloc-replay")
        command = [
            *(str(target("llamalloc-generate")), str(WORKLOADS / "fleetbench" / "TCMALLOC_3.csv")),
            *("-o", str(session.folder / "waves.trace"), "--seed", str(session.seed)),
            *("--events", str(session.scaled(4_000_000, 10_000))),
            *("--live", f"{128 * root:g}", "--period", f"{4 * root:g}", "--slow", "2"),
            *("--wave", "steps", "--depth", "1"),
            *("--sessions", "0.6", "--heavy", "0", "--threads", "1"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise WorkloadError(f"llamalloc-generate failed: {done.stderr.strip()}")

    def command(self, session: Session) -> list[str]:
        """At the speed of the trace."""
        return [str(BUILD / "llamalloc-replay"), str(session.folder / "waves.trace")]

# SPDX-License-Identifier: Apache-2.0
"""Records one build under its load: a profile in the cache, made once for each build and run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.versions.builds import Build, Workshop
from lab.versions.loads import LOADS
from lab.workloads import runner
from lab.workloads.recipe import WorkloadError

INTERVAL = "4KiB"  # small, for the runs are short: a server runs for hours


@dataclass(frozen=True)
class Run:
    """One recorded run of a build; its number is the load's seed."""

    build: Build
    number: int = 1

    def __str__(self) -> str:
        """Its name, a file name as well."""
        return f"{self.build}-run{self.number}"


def load_name(scale: float) -> str:
    """What recordings depend on beside the run: the size of its load, and the sampling."""
    return f"scale-{scale:g}-{INTERVAL}"


def profile_of(
    run: Run,
    shop: Workshop,
    cache: Path,
    scale: float,
    say: Callable[[str], None],
    only_recorded: bool = False,
) -> Path:
    """The profile of a run, recorded if it is not there. Raises WorkloadError, or as `binary`."""
    found = cache / "profiles" / load_name(scale) / f"{run}.pb.gz"
    if found.exists():
        return found
    if only_recorded:
        raise WorkloadError("not recorded yet")
    say(f"{run.build}: building")
    binary = shop.binary(run.build)
    found.parent.mkdir(parents=True, exist_ok=True)
    fresh = found.with_name(f"new-{found.name}")
    under = f"llamalloc record -o {fresh} --interval {INTERVAL}"
    options = runner.Options(under=under, scale=scale, seed=run.number)
    os.nice(max(0, 10 - os.nice(0)))
    runner.run(LOADS[run.build.program](binary), options, lambda text: say(f"{run}: {text}"))
    fresh.rename(found)
    return found

# SPDX-License-Identifier: Apache-2.0
"""The traces: three programs, recorded under load, and two generated loads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.places import BUILD, ROOT, WORKLOADS


@dataclass(frozen=True)
class Load:
    """One trace: its name, and what makes it."""

    name: str
    scale: float = 0.0  # of a workload that is recorded; 0: generated
    sizes: str = ""
    options: tuple[str, ...] = ()

    def command(self, trace: Path) -> list[str]:
        """Makes the trace."""
        if self.scale:
            python = [sys.executable, "-m", "lab.workloads", "run", self.name]
            return [*python, "--scale", str(self.scale), "--under", f"llamalloc trace -o {trace}"]
        sizes = WORKLOADS / "fleetbench" / self.sizes
        return [str(BUILD / "llamalloc-generate"), str(sizes), "-o", str(trace), *self.options]


# Generated loads change threads with nearly every event, which takes a replay some microseconds.
LOADS = (
    Load("redis", 0.3),
    Load("mariadb", 0.4),
    Load("clang", 0.6),
    Load(
        "fleetbench1-sine",
        sizes="TCMALLOC_1.csv",
        options=("--events", "1500000", "--live", "96", "--period", "0.5"),
    ),
    Load(
        "fleetbench3-steps",
        sizes="TCMALLOC_3.csv",
        options=("--events", "1500000", "--live", "192", "--wave", "steps", "--period", "0.5"),
    ),
)


class LoadError(RuntimeError):
    """A trace could not be made. One line."""


def make(load: Load, trace: Path) -> None:
    """Writes the trace. Raises LoadError."""
    done = subprocess.run(
        load.command(trace), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or not trace.exists():
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise LoadError(f"{load.name}: {lines[-1]}")

# SPDX-License-Identifier: Apache-2.0
"""The rows of the benchmark: what is measured, in which unit, and how one sample is taken."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

from lab.allocators import Allocator
from lab.bench import programs
from lab.places import MALLOC_BENCH


class RowError(RuntimeError):
    """A sample could not be taken; the message says of what and why."""


@dataclass(frozen=True)
class Row:
    """`metric` names the sample's figure that the table compares, in `unit`."""

    name: str
    title: str
    metric: str = "ns"
    unit: str = "ns"
    higher: bool = False  # whether more is better
    program: bool = False


# Figures of a sample that are rows of their own, taken without a further run: row, figure, unit.
MEMORY = {
    "threads_500": ("bytes_per_thread_later", "B", "500 idle threads, memory of each"),
    "footprint": ("footprint_over_live", "x", "steady churn, RSS over live"),
}
ALONE = {"empty"}  # no comparison: the loop itself


def micro() -> list[Row]:
    """The rows that malloc_bench knows. Raises RowError if it was not built."""
    try:
        text = subprocess.run([MALLOC_BENCH, "--list"], capture_output=True, text=True, check=True)
    except OSError:
        raise RowError(f"{MALLOC_BENCH} is not there; `make bench` builds it") from None
    pairs = (line.split(maxsplit=1) for line in text.stdout.splitlines())
    return [Row(name, title) for name, title in pairs if name not in ALONE]


def all_rows() -> list[Row]:
    """Microbenchmarks, then programs."""
    real = [
        Row(p.name, p.title, p.metric, p.unit, p.higher, program=True) for p in programs.PROGRAMS
    ]
    return micro() + real


def chosen(names: list[str], rows: list[Row]) -> list[Row]:
    """Rows by name, in table order; `micro` and `programs` stand for their kind."""
    known = {row.name for row in rows} | {"micro", "programs"}
    if unknown := sorted(set(names) - known):
        raise ValueError(f"no row {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [
        row
        for row in rows
        if not names or row.name in names or ("programs" if row.program else "micro") in names
    ]


def sample(row: Row, allocator: Allocator, seconds: float, quick: bool) -> dict[str, float]:
    """One sample: figures by name. Raises RowError."""
    environment = allocator.environment()
    if row.program:
        try:
            return programs.run(row.name, environment, quick)
        except programs.ProgramError as error:
            raise RowError(f"{row.name} on {allocator.name}: {error}") from None
    command = [str(MALLOC_BENCH), "--seconds", str(seconds), row.name]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["nothing said"]
        raise RowError(f"{row.name} on {allocator.name} ended with {done.returncode}: {said[-1]}")
    figures = json.loads(done.stdout)
    return {key: float(value) for key, value in figures.items() if key != "row"}

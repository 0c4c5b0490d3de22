# SPDX-License-Identifier: Apache-2.0
"""The rows of the benchmark: what is measured, in which unit, and how one sample is taken."""

from __future__ import annotations

import contextlib
import json
import subprocess
from dataclasses import dataclass

from lab.allocators import Allocator
from lab.bench import programs
from lab.places import MALLOC_BENCH
from llamalloc.running.memory_figures import TITLES
from llamalloc.running.memory_group import MemoryGroup, entered


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


# Figures of a sample that are rows of their own, taken without a further run.
# Charges are there only where the row ran in a memory control group.
MEMORY = {
    "threads_500": (
        ("memory", "bytes_per_thread_later", "B", "500 idle threads, RSS of each"),
        ("charge", "charge_per_thread_later", "B", "500 idle threads, charge of each"),
    ),
    "footprint": (
        ("memory", "footprint_over_live", "x", "steady churn, RSS over live"),
        ("charge", "charge_over_live", "x", "steady churn, charge over live"),
    ),
}
# The same of programs. A server is at its end when its load is; one that ends by itself has no such
# figure.
_OF_PROGRAMS = {
    "charge": ("B", "what the kernel charges, at the end"),
    "average_charge": ("B", "what the kernel charges, on average"),
    "peak_charge": ("B", "what the kernel charges, at the peak"),
    "over_live": ("x", "that peak over the most that was live"),
    "rss": ("B", "resident memory, at the end"),
    "average_rss": ("B", "resident memory, on average"),
    "peak_rss": ("B", "resident memory, at the peak"),
}
PROGRAMS = tuple((TITLES[name], name, *how) for name, how in _OF_PROGRAMS.items())
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


def _run(
    command: list[str], environment: dict[str, str], in_group: bool
) -> subprocess.CompletedProcess[str]:
    """In a memory control group, which the program then reads itself."""
    making = MemoryGroup.made("bench") if in_group else contextlib.nullcontext()
    with making as group:
        words, shared = entered(group, command, environment) if group else (command, environment)
        named = {"MEMORY_GROUP": str(group.folder)} if group else {}
        return subprocess.run(
            words, env=shared | named, capture_output=True, text=True, check=False, timeout=120
        )


def sample(row: Row, allocator: Allocator, seconds: float, quick: bool) -> dict[str, float]:
    """One sample: figures by name. Raises RowError."""
    environment = allocator.environment()
    if row.program:
        try:
            return programs.run(row.name, environment, quick, allocator.ours)
        except programs.ProgramError as error:
            raise RowError(f"{row.name} on {allocator.name}: {error}") from None
    command = [str(MALLOC_BENCH), "--seconds", str(seconds), row.name]
    done = _run(command, environment, row.name in MEMORY)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["nothing said"]
        raise RowError(f"{row.name} on {allocator.name} ended with {done.returncode}: {said[-1]}")
    figures = json.loads(done.stdout)
    return {key: float(value) for key, value in figures.items() if key != "row"}

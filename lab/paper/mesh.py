# SPDX-License-Identifier: Apache-2.0
"""Section 9.6 and figure 12b: one survivor among 10,000 short-lived objects, in a heap that swings.

Mesh is compared where its library is given (--mesh): no package registry carries it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.launcher import clean_environment, with_preload
from lab.paper.context import OTHERS, Context
from lab.paper.section import Exhibit, Results, Section
from lab.places import LIBRARY
from lab.sites import build, process, rows
from lab.sites.ways import VARIANTS, WAYS, Variant, Way

LOAD = ("--peak", "1024", "--survivors", "5120", "--waves", "1")
SETTLE = 4.0  # seconds from the drop to the measurement
TITLES = {
    "tcmalloc": "Google's tcmalloc",
    "jemalloc": "jemalloc",
    "mesh": "Mesh",
    rows.BLIND: "llamalloc, blind",
    rows.FIRST: "first run",
    rows.SECOND: "second run",
}
_WAYS = ("one_function", "two_functions", "wrapper")


def measure(context: Context) -> Results:
    """MiB after the drop, a list of runs by way and row."""
    variant = next(one for one in VARIANTS if one.name == "O2")
    ways = [way for way in WAYS if way.name in _WAYS]
    return {way.title: _way(context, way, variant) for way in ways}


def _way(context: Context, way: Way, variant: Variant) -> Results:
    command = [str(build.built(way, variant)), *LOAD]
    found: Results = {}
    for turn in range(max(3, context.rounds)):
        for row, figures in _rows(context, command):
            context.say(f"section 9.6, {way.title}, {TITLES[row]}, run {turn + 1}")
            found.setdefault(row, []).append(figures.judged / 2**20)
    return found


def _rows(context: Context, command: list[str]) -> Iterator[tuple[str, process.Figures]]:
    for row, library in _others(context):
        yield row, process.run(command, with_preload(clean_environment(), library), SETTLE)
    with tempfile.TemporaryDirectory(prefix="llamalloc-paper-") as folder:
        runner = rows.Runner(LIBRARY, "", SETTLE, Path(folder))
        for row in rows.OURS:
            yield row, runner.run(row, command, {})


def _others(context: Context) -> Iterator[tuple[str, str]]:
    for name in context.present(OTHERS)[0]:
        yield name, name
    if context.mesh:
        yield "mesh", str(context.mesh)


def show(results: Results) -> Section:
    """One row for each way: median and worst."""
    section = Section("Figure 12b and section 9.6: one survivor among 10,000 objects")
    section.paragraphs.append(
        "A program fills 1 GiB with objects of 64 bytes, and 5 MiB of survivors among them, and "
        "frees the rest. MiB four seconds later, the larger of RSS without files and of what the "
        "control group is charged for: median (worst). The paper, on huge pages: TCMalloc frees "
        "almost nothing of 1 GB, Mesh keeps 558 MB, the paper's heap 22 MB with correct "
        "predictions."
    )
    present = [row for row in TITLES if any(row in by for by in results.values())]
    absent = [TITLES[row] for row in TITLES if row not in present and row != "mesh"]
    if absent:
        section.paragraphs.append(f"Left out, as not installed: {', '.join(absent)}.")
    if "mesh" not in present:
        section.paragraphs.append("Mesh is left out: `--mesh LIBRARY` names one that was built.")
    section.table(("the two call sites", *(TITLES[row] for row in present)), [
        (title, *(_cell(by.get(row)) for row in present)) for title, by in results.items()
    ])  # fmt: skip
    return section


def _cell(runs: list[float] | None) -> str:
    return f"{statistics.median(runs):,.0f} ({max(runs):,.0f})" if runs else "-"


EXHIBIT = Exhibit("figure12", 6, measure, show)

# SPDX-License-Identifier: Apache-2.0
"""Figure 9: memory with perfect predictions, simulated, beside live memory."""

from __future__ import annotations

from lab.paper.context import Context
from lab.paper.section import Exhibit, Results, Section
from llamalloc.reporting.pictures import INK, drawing, png
from llamalloc.running import simulation

PROGRAMS = {"images": "image server", "tensorflow": "InceptionV3"}
POLICIES = {
    ("llamalloc", "oracle"): ("llamalloc, perfect predictions", "#4f9d8f"),
    ("paper-k2", "oracle"): ("the paper's heap, perfect predictions", "#7a6fb0"),
    ("llamalloc", "none"): ("llamalloc, blind", "#8a8a8a"),
}


def measure(context: Context) -> Results:
    """By program and policy: average and peak of footprint / live, and both over time."""
    return {program: [_one(run) for run in _simulated(context, program)] for program in PROGRAMS}


def _simulated(context: Context, program: str) -> list[simulation.Result]:
    setting = simulation.Setting(str(context.trace(program)), samples=300)
    return simulation.run_all(setting, list(POLICIES))


def _one(result: simulation.Result) -> Results:
    moments = [m for m in result["moments"] if m["kind"] == "sample"]
    return {
        "average": result["totals"]["average"],
        "peak": result["totals"]["peak"],
        "series": [(m["time_ns"] / 1e9, m["live"], m["resident"]) for m in moments],
    }


def show(results: Results) -> Section:
    """A table of averages and a picture for each program."""
    section = Section("Figure 9: perfect predictions")
    section.paragraphs.append(
        "Charge / live bytes, simulated from one recorded run of each program. "
        "The paper reports less than 1.1 on average for both."
    )
    rows = [
        (PROGRAMS[program], title, f"{run['average']:.2f}", f"{run['peak']:.2f}")
        for program, runs in results.items()
        for (title, _), run in zip(POLICIES.values(), runs, strict=True)
    ]
    section.table(("program", "heap", "average", "at the peak"), rows)
    with drawing(9, 3.4, ncols=2, squeeze=False) as (figure, grid):
        for axes, (program, runs) in zip(grid.flat, results.items(), strict=True):
            for (title, colour), run in zip(POLICIES.values(), runs, strict=True):
                times, _, huge = zip(*run["series"], strict=True)
                axes.plot(times, [h / 2**20 for h in huge], color=colour, label=title)
            times, live, _ = zip(*runs[0]["series"], strict=True)
            axes.plot(times, [b / 2**20 for b in live], color=INK, linestyle="--", label="live")
            axes.set(title=PROGRAMS[program], xlabel="seconds", ylabel="MiB", ylim=(0, None))
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
        section.pictures["ideal"] = png(figure)
    return section


EXHIBIT = Exhibit("figure9", 3, measure, show)

# SPDX-License-Identifier: Apache-2.0
"""Table 3: four programs on five allocators. Memory, and what the run took."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from lab.paper.context import OTHERS, Context, PaperError
from lab.paper.section import Exhibit, Results, Section, mib, percent
from lab.places import LIBRARY
from lab.workloads.runner import Outcome
from llamalloc.reporting.pictures import INK, drawing, png
from llamalloc.running import simulation

PROGRAMS = {
    "images": "image server",
    "tensorflow": "InceptionV3",
    "wordcount": "word count",
    "redis": "Redis",
}
ROWS = {
    "tcmalloc": "Google's tcmalloc",
    "jemalloc": "jemalloc",
    "blind": "llamalloc, blind",
    "profile": "llamalloc, learned from a profile",
    "process": "llamalloc, learned in process (second run)",
}
COLOURS = ("#8a8a8a", "#c98b2b", "#7a6fb0", "#7fa650", "#4f9d8f")
# Steady state in MB of TCMalloc, Llama, live; accuracy weighted and not.
PAPER = {
    "images": (664, 446, 153, 0.96, 0.73),
    "tensorflow": (282, 269, 214, 0.98, 0.94),
    "wordcount": (1964, 481, 50, 0.99, 0.78),
    "redis": (832, 312, 115, 1.00, 0.94),
}
_MEMORY = ("steady", "average", "peak")
_TAIL = 1.0  # seconds at the end of a run that count as steady state


def measure(context: Context) -> Results:
    """runs: by program and row a list of figures; live and accuracy by program."""
    present, missing = context.present(OTHERS)
    results: Results = {"runs": {}, "live": {}, "accuracy": {}, "missing": missing}
    for program in PROGRAMS:
        state, model = _first_run(context, program), context.model(program)
        found = {row: [] for row in ROWS if row not in OTHERS or row in present}
        for turn in range(context.rounds):
            for row, figures in found.items():
                context.say(f"{program} on {ROWS[row]}, run {turn + 1}")
                how = _how(row, state, model)
                figures.append(_figures(context.run(program, turn + 10, **how)))
        results["runs"][program] = found
        results["live"][program] = _live(context.trace(program))
        results["accuracy"][program] = _accuracy(context, program)
    return results


def _how(row: str, state: Path, model: Path) -> dict[str, str]:
    """All are started alike: a launcher would be in the figures of some."""
    if row in OTHERS:
        return {"preload": row}
    if row == "blind":
        return {"preload": str(LIBRARY)}
    if row == "profile":
        return {"preload": str(LIBRARY), "conf": f"model:{model}"}
    return {"preload": str(LIBRARY), "conf": f"learn:{shutil.copy(state, f'{state}.second')}"}


def _first_run(context: Context, program: str) -> Path:
    """The state file that one run leaves. Each second run takes a copy."""
    state = context.file(program, ".learned")
    state.unlink(missing_ok=True)
    context.say(f"{program} learns in a first run")
    context.run(program, 2, preload=str(LIBRARY), conf=f"learn:{state}")
    if not state.exists():
        raise PaperError(f"{state} was not written")
    return state


def _figures(outcome: Outcome) -> Results:
    series = outcome.charges or outcome.series
    values = [value for _, value in series]
    end = series[-1][0]
    steady = [value for at, value in series if at >= end - _TAIL]
    return {
        "steady": statistics.median(steady),
        "average": statistics.fmean(values),
        "peak": max(values),
        "seconds": outcome.seconds,
        "cpu": outcome.cpu,
        "series": series[:: max(1, len(values) // 300)],
        "is_charge": bool(outcome.charges),
    }


def _live(trace: Path) -> Results:
    setting = simulation.Setting(str(trace), samples=300)
    result = simulation.run_all(setting, [("llamalloc", "none")])[0]
    moments = [moment for moment in result["moments"] if moment["kind"] == "sample"]
    live, end = [moment["live"] for moment in moments], moments[-1]["time_ns"]
    steady = [one["live"] for one in moments if one["time_ns"] >= end - _TAIL * 1e9]
    return {
        "steady": statistics.median(steady),
        "average": statistics.fmean(live),
        "peak": result["trace"]["peak_live"],
    }


def _accuracy(context: Context, program: str) -> Results:
    report = json.loads(context.model(program).with_suffix(".json").read_text())
    return report["scores"]["measured"]["model"]


def show(results: Results) -> Section:
    """The paper's columns, then average, peak and time; a picture of each program over time."""
    section = Section("Table 3: memory of four programs")
    section.paragraphs.append(
        f"{_what(results)}, in MiB. Steady state is the median of the last second of a run. Live "
        "is what was asked for, even where it was never touched. All but Redis are programs of "
        "Google's own in the paper; ours do the same kind of work, at a smaller size. Removed: of "
        "what Google's tcmalloc holds beyond live."
    )
    section.paragraphs += [f"Left out: {line}." for line in results["missing"]]
    section.table(
        ("program", "", "steady", "average", "peak", "seconds", "processor s"),
        [row for program in results["runs"] for row in _rows(results, program)],
    )
    section.table(
        ("program", "removed, paper", "profile", "in process", "accuracy, paper", "profile"),
        [_removed(results, program) for program in results["runs"]],
    )
    section.pictures["memory"] = _picture(results)
    return section


def _what(results: Results) -> str:
    runs = [run for by in results["runs"].values() for found in by.values() for run in found]
    if all(run["is_charge"] for run in runs):
        return "What the control group of the program is charged for, less files"
    return "RSS (no control group could be made)"


def _rows(results: Results, program: str) -> Iterator[list[str]]:
    for row, runs in results["runs"][program].items():
        values = [statistics.median(run[key] for run in runs) for key in _MEMORY]
        times = [statistics.median(run[key] for run in runs) for key in ("seconds", "cpu")]
        yield [PROGRAMS[program], ROWS[row], *map(mib, values), *(f"{t:.1f}" for t in times)]
    live = results["live"][program]
    yield [PROGRAMS[program], "live", *(mib(live[key]) for key in _MEMORY), "", ""]


def _removed(results: Results, program: str) -> list[str]:
    runs, live = results["runs"][program], results["live"][program]["steady"]
    steady = {row: statistics.median(r["steady"] for r in rs) for row, rs in runs.items()}
    lost = steady.get("tcmalloc", 0) - live

    def removed(row: str) -> str:
        return percent((steady["tcmalloc"] - steady[row]) / lost) if lost > 0 else "-"

    before, after, alive, weighted, unweighted = PAPER[program]
    accuracy = results["accuracy"][program]
    return [
        PROGRAMS[program],
        percent((before - after) / (before - alive)),
        removed("profile"),
        removed("process"),
        f"{percent(weighted)} / {percent(unweighted)}",
        f"{percent(accuracy['weighted'])} / {percent(accuracy['unweighted'])}",
    ]


def _picture(results: Results) -> bytes:
    with drawing(9, 6, ncols=2, nrows=2, squeeze=False) as (figure, grid):
        for axes, (program, rows) in zip(grid.flat, results["runs"].items(), strict=False):
            for colour, row in zip(COLOURS, ROWS, strict=True):
                if row in rows:
                    series = rows[row][0]["series"]
                    axes.plot([t for t, _ in series], [v / 2**20 for _, v in series],
                              color=colour, linewidth=1.4, label=ROWS[row])  # fmt: skip
            axes.axhline(results["live"][program]["average"] / 2**20, color=INK, linestyle="--",
                         linewidth=1, label="live, on average")  # fmt: skip
            axes.set(title=PROGRAMS[program], xlabel="seconds", ylabel="MiB", ylim=(0, None))
            axes.grid(axis="y")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=9)
        return png(figure)


EXHIBIT = Exhibit("table3", 25, measure, show)

# SPDX-License-Identifier: Apache-2.0
"""A picture of the means: bars by relation and predictor, a panel for each program."""

from __future__ import annotations

import textwrap
from pathlib import Path

from lab.versions import measure
from lab.versions.cases import RELATIONS
from lab.versions.results import GOALS, OTHER_GOAL, Results
from llamalloc.reporting import pictures

_COLOURS = {
    measure.EXACT: "#8a8a8a",
    measure.NAMES: "#c98b2b",
    measure.PRIOR: "#7a6fb0",
    measure.NETWORK: "#c0272d",
    measure.WITH_PRIOR: "#4f9d8f",
}


def write(results: Results, path: Path) -> None:
    """Writes a PNG. Raises OSError."""
    shares = {(p, r, n): s.weighted.group for p, r, _, n, s in results.means("all")}
    programs = list(dict.fromkeys(program for program, _, _ in shares))
    grid = {"nrows": len(programs), "squeeze": False}
    with pictures.drawing(9, 3.2 * len(programs), **grid) as (figure, panels):
        for program, axes in zip(programs, panels[:, 0], strict=True):
            _panel(axes, program, shares)
        panels[0, 0].legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.12), fontsize=9)
        figure.savefig(path)


def _panel(axes, program: str, shares: dict[tuple[str, str, str], float]) -> None:
    relations = [r for r in RELATIONS if (program, r, measure.EXACT) in shares]
    names = [name for name in _COLOURS if any(name == key[2] for key in shares)]
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        places = [at + (number - (len(names) - 1) / 2) * width for at in range(len(relations))]
        heights = [100 * shares.get((program, relation, name), 0) for relation in relations]
        axes.bar(places, heights, width, color=_COLOURS[name], label=name)
    for at, relation in enumerate(relations):
        goal = 100 * GOALS.get(relation, OTHER_GOAL)
        axes.plot([at - 0.45, at + 0.45], [goal, goal], color=pictures.INK, linewidth=1)
    axes.set_title(f"{program}: allocations in the right page group (line: goal)")
    axes.set_ylabel("%")
    axes.set_ylim(0, 101)
    axes.set_xticks(range(len(relations)), [textwrap.fill(r, 16) for r in relations], fontsize=9)

# SPDX-License-Identifier: Apache-2.0
"""The experiment's picture: a panel for each way, RSS and charge over time."""

from __future__ import annotations

from matplotlib.axes import Axes

from lab.measuring.experiment import Found
from llamalloc.reporting.pictures import ACCENT, INK, SOFT, drawing, png

_MIB = 1 << 20


def over_time(found: list[Found]) -> bytes:
    """One scale for all panels."""
    rows = (len(found) + 1) // 2
    shape = {"ncols": 2, "nrows": rows, "sharey": True, "squeeze": False}
    with drawing(9, 2.4 * rows + 0.4, **shape) as (figure, grid):
        panels = list(grid.flat)
        for axes, one in zip(panels, found, strict=False):
            _panel(axes, one)
        for axes in panels[len(found) :]:
            axes.set_visible(False)
        panels[0].set_ylim(0, None)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=10)
        return png(figure)


def _panel(axes: Axes, one: Found) -> None:
    at = [sample.at for sample in one.samples]
    axes.plot(at, [s.rss / _MIB for s in one.samples], color=INK, linestyle="--", label="RSS")
    charged = [s for s in one.samples if s.charge is not None]
    values = [(s.charge or 0) / _MIB for s in charged]
    axes.plot([s.at for s in charged], values, color=ACCENT, linewidth=2, label="charge")
    for begin, step in zip(one.begins[1:], one.way.steps[1:], strict=True):
        axes.axvline(begin, color=SOFT, linewidth=0.8, linestyle=":")
        axes.text(begin, 0.03, f" {step.title}", color=SOFT, fontsize=8,
                  transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set_title(one.way.title, fontsize=10.5)
    axes.set(ylabel="MiB", xlabel="seconds")
    axes.grid(axis="y")

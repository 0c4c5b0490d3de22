# SPDX-License-Identifier: Apache-2.0
"""The demo's own pictures: memory over time, and what is left after the load dropped."""

from __future__ import annotations

from matplotlib.axes import Axes

from lab.demo.allocators import ROWS
from lab.demo.results import Results, Run
from llamalloc.reporting.pictures import ACCENT, INK, LINE, SOFT, drawing, png

MIB = 1 << 20
_ROW = {row.name: row for row in ROWS}


def overview(results: Results) -> bytes:
    """All allocators in one picture: charge over time, or RSS where there is none, as a share of
    the run, and live beneath."""
    with drawing(9, 4.6) as (figure, axes):
        runs = _one_each(results)
        for run in runs:
            row = _ROW[run.allocator]
            width = 2.6 if row.learned or row.learns else 1.5
            at, memory = _charge_or_rss(run)
            at = [t / run.dropped_at for t in at]
            axes.plot(at, _mib(memory), color=row.colour, linewidth=width, label=run.title)
        _live(axes, runs[-1], runs[-1].dropped_at, "live (what Redis holds)")
        axes.axvline(1, color=SOFT, linewidth=0.8, linestyle=":")
        axes.text(1.003, axes.get_ylim()[1] * 0.98, "load ends", color=SOFT, fontsize=9, va="top")
        axes.set(xlim=(0, None), ylim=(0, None), ylabel="MiB")
        axes.set(xlabel="time, as a share of each run's load")
        what = "charged" if results.is_charged() else "resident"
        axes.set_title(f"{what} memory of redis-server, by allocator")
        axes.grid(axis="y")
        axes.legend(loc="upper left", fontsize=9.5)
        return png(figure)


def memory_over_time(results: Results) -> bytes:
    """A panel for every allocator on one scale: RSS, the part on huge pages, live."""
    runs = _one_each(results)
    rows = (len(runs) + 1) // 2
    shape = {"ncols": 2, "nrows": rows, "sharey": True, "squeeze": False}
    with drawing(9, 2.5 * rows + 0.4, **shape) as (figure, grid):
        panels = list(grid.flat)
        for axes, run in zip(panels, runs, strict=False):
            _panel(axes, run)
        peak = max(max(run.peak_rss, run.peak_charge or 0) for run in runs)
        panels[0].set_ylim(0, 1.05 * peak / MIB)  # shared by all
        for axes in panels[len(runs) :]:
            axes.set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize=10)
        return png(figure)


def _panel(axes: Axes, run: Run) -> None:
    series = run.series
    axes.fill_between(series.memory_at, _mib(series.rss), color="#b9bec4", label="RSS", linewidth=0)
    huge = _mib(series.anon_huge_pages)
    axes.fill_between(
        series.memory_at,
        huge,
        color="#4f9d8f",
        alpha=0.75,
        label="of it on huge pages",
        linewidth=0,
    )
    if series.charge:
        axes.plot(series.charge_at, _mib(series.charge), color=ACCENT, linewidth=1, label="charge")
    _live(axes, run, 1.0, "live")
    axes.axvline(run.dropped_at, color=SOFT, linewidth=0.8, linestyle=":")
    axes.set_title(run.title, fontsize=10.5)
    axes.set(xlim=(0, None), ylabel="MiB", xlabel="seconds")
    axes.grid(axis="y")


def _live(axes: Axes, run: Run, unit: float, label: str) -> None:
    at = [t / unit for t in run.series.live_at]
    axes.plot(at, _mib(run.series.live), color=INK, linewidth=1.2, linestyle="--", label=label)


def after_the_drop(results: Results) -> bytes:
    """Bars: charge / live, or RSS / live where there is none, and the part of RSS on huge pages."""
    rows = results.rows()
    colours = [_ROW[row.allocator].colour for row in rows]
    titles = [row.title for row in rows]
    with drawing(9, 0.42 * len(rows) + 1.2, ncols=2, sharey=True) as (figure, (left, right)):
        ratios = left.barh(titles, [row.charge_ratio or row.ratio for row in rows], color=colours)
        left.bar_label(ratios, fmt="%.2f", padding=3)
        left.axvline(1, color=SOFT, linewidth=0.8, linestyle=":")
        what = "charge" if results.is_charged() else "RSS"
        left.set_title(f"{what} / live after the drop (1 is perfect)")
        covered = right.barh(titles, [100 * row.coverage for row in rows], color=colours)
        right.bar_label(covered, fmt="%.0f %%", padding=3)
        right.set_title("of RSS on huge pages")
        right.set_xlim(0, 112)
        left.margins(x=0.12)
        left.invert_yaxis()
        for axes in (left, right):
            axes.tick_params(axis="y", colors=INK, length=0)
            axes.xaxis.set_visible(False)
            axes.spines[["bottom", "left"]].set_color(LINE)
        return png(figure)


def _one_each(results: Results) -> list[Run]:
    found = (results.one_run(row.allocator) for row in results.rows())
    return [run for run in found if run is not None]


def _charge_or_rss(run: Run) -> tuple[list[float], list[int]]:
    series = run.series
    if series.charge:
        return series.charge_at, series.charge
    return series.memory_at, series.rss


def _mib(values: list[int]) -> list[float]:
    return [value / MIB for value in values]

# SPDX-License-Identifier: Apache-2.0
"""Simulations as pictures, after figures 1, 2, 6, 8 and 9 of papers/000, as PNG bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from llamalloc.formats.contracts import lifetime_classes
from llamalloc.reporting.pictures import ACCENT, INK, LINE, SOFT, drawing, png
from llamalloc.reporting.simulation_table import last_low, name_of

_SMALL = "#d9a400"
_POLICY_COLOURS = {
    "llamalloc": "#c0272d",
    "paper-k2": "#7a6fb0",
    "paper-k4": "#b3abd6",
    "slabs-fullest": "#4f9d8f",
    "slabs-lowest": "#1f6f8b",
    "first-fit": "#c98b2b",
    "best-fit": "#8a8a8a",
}
_CLASS_COLOURS = (
    "#9fd3c7",
    "#4f9d8f",
    "#1f6f5f",
    "#f0cf8b",
    "#c98b2b",
    "#8a5a10",
    "#b3abd6",
    "#7a6fb0",
    "#a0a0a0",
)
_FREE, _LATE = len(_CLASS_COLOURS), len(_CLASS_COLOURS) + 1
_MAP_COLUMNS = 128
_HIGHEST = 3  # times the highest live bytes: what exceeds that leaves the frame

Result = dict[str, Any]


def all_pictures(results: list[Result]) -> dict[str, bytes]:
    """PNG by file name."""
    files = {
        "memory.png": memory(results),
        "lifetimes.png": lifetimes(results[0]),
        "policies.png": policies(results),
    }
    oracles = [r for r in results if r["predictor"] == "oracle"]
    if oracles:
        files["oracle.png"] = policies(oracles, title="with perfect predictions")
    for result in results:
        predictor = result["predictor"].replace("/", "_").replace(":", "_")
        files[f"map_{result['policy']}_{predictor}.png"] = heap_map(result)
    return files


def _series(result: Result, key: str) -> tuple[np.ndarray, np.ndarray]:
    samples = [m for m in result["moments"] if m["kind"] == "sample"]
    return (
        np.array([m["time_ns"] / 1e9 for m in samples]),
        np.array([m[key] / 2**20 for m in samples]),
    )


def memory(results: list[Result]) -> bytes:
    """What is live, and what holds it in pages of 4 KiB and 2 MiB; one frame a run (figure 1)."""
    rows = (len(results) + 1) // 2
    columns = min(len(results), 2)
    size = {"nrows": rows, "ncols": columns, "sharex": True, "sharey": True, "squeeze": False}
    with drawing(5 * columns, 2.4 * rows + 0.4, **size) as (figure, axes):
        for frame in axes.flat[len(results) :]:
            frame.set_visible(False)
        for result, frame in zip(results, axes.flat, strict=False):
            frame.fill_between(*_series(result, "live"), color=LINE, label="live")
            frame.plot(*_series(result, "small"), color=_SMALL, label="4 KiB pages")
            frame.plot(*_series(result, "huge"), color=ACCENT, label="2 MiB pages")
            frame.set_title(name_of(result))
            frame.set(ylabel="MiB")
            frame.set_ylim(bottom=0)
            frame.grid(axis="y")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=9)
        for frame in axes[-1]:
            frame.set(xlabel="seconds")
        return png(figure)


def lifetimes(result: Result) -> bytes:
    """How many placements lived how long, on logarithmic axes (figure 2)."""
    with drawing(9, 3.4) as (figure, axes):
        counts = np.array(result["lifetimes_log2_ns"], dtype=float)
        total = max(counts.sum() + result["never_freed"], 1)
        starts = 2.0 ** np.arange(len(counts)) / 1e9
        shown = counts > 0
        axes.bar(
            starts[shown],
            counts[shown] / total,
            width=starts[shown],
            align="edge",
            color=INK,
            label="freed after this long",
        )
        edge = max(4 * result["trace"]["duration_ns"] / 1e9, 1e-3)
        if result["never_freed"]:
            share = result["never_freed"] / total
            axes.bar([edge], [share], width=edge, align="edge", color=ACCENT, label="never freed")
        axes.set(xscale="log", yscale="log")
        axes.set(xlabel="lifetime, seconds", ylabel="share of placements")
        axes.grid(axis="y")
        figure.legend(loc="outside upper center", ncols=2, fontsize=9)
        return png(figure)


def policies(results: list[Result], title: str = "") -> bytes:
    """Footprint in 2 MiB pages of every run in one frame, and what is live (figures 8 and 9)."""
    with drawing(9, 4) as (figure, axes):
        axes.fill_between(*_series(results[0], "live"), color=LINE, label="live")
        seen: dict[str, int] = {}
        for result in results:
            policy = result["policy"]
            style = ("-", "--", ":", "-.")[seen.get(policy, 0) % 4]
            seen[policy] = seen.get(policy, 0) + 1
            colour = _POLICY_COLOURS.get(policy, SOFT)
            times, values = _series(result, "resident")
            axes.plot(times, values, style, color=colour, linewidth=1.3, label=name_of(result))
        axes.set(xlabel="seconds", ylabel="MiB charged")
        axes.set_title(title)
        highest = _HIGHEST * results[0]["trace"]["peak_live"] / 2**20
        axes.set_ylim(0, min(axes.get_ylim()[1], highest))
        axes.grid(axis="y")
        figure.legend(loc="outside lower center", ncols=3, fontsize=8)
        return png(figure)


def heap_map(result: Result) -> bytes:
    """Huge pages as rows of blocks, at the peak and after the last drop (figure 6).

    A block has the colour of the longest class predicted for an object in it; red where one of them
    outlived its class.
    """
    peak = next(m for m in result["moments"] if m["kind"] == "peak")
    low = last_low(result)
    rows = max(len(peak["map"]), len(low["map"]), 4)
    height = min(1.6 + 2 * rows / _MAP_COLUMNS * 4.5, 12)
    with drawing(9, height, ncols=2, sharey=True) as (figure, (left, right)):
        _draw_map(left, peak, rows, "at the peak")
        _draw_map(
            right, low, rows, "after the last drop" if low["kind"] == "drop" else "at the end"
        )
        left.set(ylabel="huge pages")
        figure.suptitle(name_of(result), x=0.02, ha="left")
        figure.legend(handles=_legend(), loc="outside lower center", ncols=6, fontsize=8)
        return png(figure)


def _draw_map(axes: Axes, moment: dict[str, Any], rows: int, title: str) -> None:
    cells = np.full((rows, 256), np.nan)
    for i, page in enumerate(moment["map"]):
        cells[i] = [_cell(letter) for letter in page]
    colours = ListedColormap([*_CLASS_COLOURS, "#ffffff", ACCENT]).with_extremes(bad=LINE)
    axes.imshow(cells, cmap=colours, vmin=0, vmax=_LATE, aspect="auto", interpolation="nearest")
    pages, live = moment["map_pages"], moment["live"] / 2**20
    axes.set_title(f"{title}: {pages} pages, {live:.0f} MiB live", fontsize=10)
    axes.set(xlabel="blocks of 8 KiB")


def _cell(letter: str) -> int:
    if letter == ".":
        return _FREE
    return _LATE if letter.isupper() else ord(letter) - ord("a")


def _legend() -> list[Patch]:
    named = zip(_CLASS_COLOURS, (row.name for row in lifetime_classes()), strict=True)
    patches = [Patch(color=colour, label=name) for colour, name in named]
    free = Patch(facecolor="#ffffff", edgecolor=LINE, label="free")
    return [*patches, free, Patch(color=ACCENT, label="outlived its class")]

# SPDX-License-Identifier: Apache-2.0
"""The pictures of the training report, as inline SVG."""

import io
import re

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llamalloc.formats import histogram
from llamalloc.formats.contracts import lifetime_classes
from llamalloc.learning.labels import CLASS_NAMES, MIXED, NEVER
from llamalloc.learning.train_result import TrainResult

CLASS_LABELS = {
    "le_10ms": "≤ 10 ms",
    "le_100ms": "≤ 100 ms",
    "le_3s": "≤ 3 s",
    "le_10s": "≤ 10 s",
    "le_100s": "≤ 100 s",
    "le_1000s": "≤ 1,000 s",
    "gt_1000s": "> 1,000 s",
    "never": "never freed",
    "mixed": "mixed",
}
_COLOURS = ("#08306b", "#2171b5", "#6baed6", "#41ab5d", "#a1d99b", "#fec44f", "#fe9929", "#cc4c02")
_COLOURS += ("#999999",)
_BUCKETS_A_BAR = 2
_FLOOR = 1e-7
_TICKS = {1e3: "1 µs", 1e5: "100 µs", 1e7: "10 ms", 1e9: "1 s", 1e11: "100 s", 1e13: "3 h"}
_ALIVE_AT = 4 * np.log2(3e13)


def svg(figure: Figure) -> str:
    """The figure as an <svg> element for a page; the same bytes for the same figure."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return re.sub(r"^.*?(?=<svg)", "", buffer.getvalue(), flags=re.DOTALL)


def confusion(result: TrainResult) -> str:
    """Heat map of the classes that occur: share of a true class's allocations by prediction."""
    matrix = result.confusion
    used = np.flatnonzero(matrix.sum(axis=0) + matrix.sum(axis=1))
    rows = matrix[np.ix_(used, used)]
    shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-300)
    names = [CLASS_LABELS[CLASS_NAMES[i]] for i in used]
    figure = Figure(figsize=(1.6 + 0.85 * len(used), 1.0 + 0.5 * len(used)))
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (i, j), share in np.ndenumerate(shares):
        if rows[i, j]:
            colour = "white" if share > 0.55 else "black"
            axes.text(j, i, _percent(share), ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(range(len(used)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(used)), names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("lived")
    axes.spines[:].set_visible(False)
    return svg(figure)


def _percent(share: float) -> str:
    return "< 0.1 %" if share < 0.001 else f"{100 * share:.3g} %"


def lifetimes(result: TrainResult) -> str:
    """Allocations by lifetime, one small bar stack a doubling, the still living at the right."""
    figure = Figure(figsize=(9.2, 3.8))
    axes = figure.subplots()
    _lifetime_bars(axes, result)
    for row in lifetime_classes():
        if row.upper_bound_ns:
            axes.axvline(4 * np.log2(row.upper_bound_ns), color="#bbb", lw=0.7, zorder=0)
    ticks = {4 * np.log2(ns): name for ns, name in _TICKS.items()} | {_ALIVE_AT + 8: "still\nalive"}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_yscale("log")
    axes.set_xlabel("lifetime (grey lines: class bounds)")
    axes.set_ylabel("share of allocations")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(title="class of the context", fontsize=8, frameon=False, loc="center left",
                bbox_to_anchor=(1.0, 0.5))  # fmt: skip
    return svg(figure)


def _lifetime_bars(axes: Axes, result: TrainResult) -> None:
    dead = result.lifetimes.dead
    buckets = histogram.MAX_BUCKET + 1
    bars = dead.reshape(len(CLASS_NAMES), buckets // _BUCKETS_A_BAR, _BUCKETS_A_BAR).sum(axis=2)
    left = np.append(np.arange(0, buckets, _BUCKETS_A_BAR, dtype=float), _ALIVE_AT + 4)
    width = np.append(np.full(bars.shape[1], _BUCKETS_A_BAR * 0.95), 8.0)
    heights = np.column_stack([bars, result.lifetimes.alive])
    base = np.zeros(heights.shape[1])
    for index in [*range(NEVER + 1), MIXED]:
        if heights[index].any():
            label = CLASS_LABELS[CLASS_NAMES[index]]
            axes.bar(left, heights[index], width, base, align="edge", color=_COLOURS[index],
                     label=label)  # fmt: skip
            base = base + heights[index]
    lowest = heights.sum(axis=0)[heights.sum(axis=0) > 0].min()
    axes.set_ylim(max(lowest * 0.5, _FLOOR), 1.0)
    axes.set_xlim(min(left[np.flatnonzero(base)[0]], _ALIVE_AT) - 2, _ALIVE_AT + 14)

# SPDX-License-Identifier: Apache-2.0
"""Pictures of summaries, as PNG bytes. Matplotlib without a display, and one look for all."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from llamalloc.formats.contracts import lifetime_classes
from llamalloc.reporting.history import Timeline
from llamalloc.reporting.profile_summary import ALIVE, ProfileSummary
from llamalloc.reporting.stats_summary import StatsSummary

INK, SOFT, LINE, ACCENT = "#1c2024", "#60666d", "#d9dce0", "#c0272d"
GROUP_COLOURS = {
    "unknown": "#8a8a8a",
    "transient": "#4f9d8f",
    "brief": "#7fa650",
    "session": "#c98b2b",
    "permanent": "#7a6fb0",
}
_LOOK = {
    "font.size": 11,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 12,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "figure.dpi": 150,
}
_SHORTEST = 1e-7  # seconds: the left edge of the picture of lifetimes


@contextmanager
def drawing(width: float, height: float, **grid: object) -> Iterator[tuple[Figure, object]]:
    """A figure of so many inches, and its axes, in our look; closed at the end."""
    with plt.rc_context(_LOOK):
        figure, axes = plt.subplots(figsize=(width, height), layout="constrained", **grid)
        try:
            yield figure, axes
        finally:
            plt.close(figure)


def png(figure: Figure) -> bytes:
    """The figure as PNG, without the date and program that would make each file differ."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def lifetimes(summary: ProfileSummary) -> bytes:
    """How long objects lived: share by lifetime (log x and y), and what was alive at the end.

    After the paper's figure 2. The bands are the lifetime classes, coloured by page group.
    """
    with drawing(9, 3.6) as (figure, axes):
        _class_bands(axes)
        times = [ns / 1e9 for ns, _ in summary.buckets]
        widths = [t * (2**0.25 - 1) for t in times]
        shares = [share for _, share in summary.buckets]
        axes.bar(times, shares, width=widths, color=INK, label="freed after this long")
        alive = next(r for r in summary.lifetimes if r.name == ALIVE).object_share
        axes.bar([2e4], [alive], width=1.6e4, color=ACCENT, label="alive at the end")
        axes.set(xscale="log", yscale="log", xlim=(_SHORTEST, 6e4), ylim=(1e-6, 1.0))
        axes.set(xlabel="lifetime, seconds", ylabel="share of all objects")
        axes.set_xticks([10.0**power for power in range(-7, 4)])
        axes.minorticks_off()
        axes.grid(axis="y")
        axes.legend(loc="upper right", bbox_to_anchor=(0.9, 1.0))
        return png(figure)


def _class_bands(axes: Axes) -> None:
    below = _SHORTEST
    for row in lifetime_classes():
        if not row.upper_bound_ns:
            continue
        above = row.upper_bound_ns / 1e9
        axes.axvspan(below, above, color=GROUP_COLOURS[row.page_group], alpha=0.13, linewidth=0)
        label = row.name.removeprefix("le_")
        axes.text((above * below) ** 0.5, 1.15, f"<= {label}", ha="center", color=SOFT, fontsize=9)
        below = above


_SITES = ("#4f9d8f", "#c98b2b", "#7a6fb0", "#c0272d", "#4878a8", "#7fa650", "#b5669f", "#8c6d46")


def timeline(shown: Timeline, peak_seconds: float | None) -> bytes:
    """Live bytes along time: the largest call sites stacked, the rest in grey above them."""
    with drawing(9, 4.2) as (figure, axes):
        rows = [[b / 2**20 for b in row] for row in (*shown.sites.values(), shown.other)]
        colours = [*_SITES[: len(shown.sites)], LINE]
        names = [_short(name) for name in shown.sites] + ["all other call sites"]
        axes.stackplot(shown.seconds, *rows, colors=colours, labels=names, step="post", lw=0)
        total = [b / 2**20 for b in shown.total]
        axes.step(shown.seconds, total, where="post", color=INK, linewidth=1)
        if peak_seconds is not None:
            axes.axvline(peak_seconds, color=ACCENT, linewidth=1, linestyle=":")
        axes.set(xlabel="seconds since sampling began", ylabel="live, MiB", ylim=(0, None))
        axes.set(xlim=(0, max(shown.seconds[-1], 1e-3)))
        axes.grid(axis="y")
        axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0, -0.16), ncols=2)
        return png(figure)


def _short(name: str, most: int = 66) -> str:
    """As matplotlib shows it: no mathematics between two `$`; names with `_` first are shown."""
    text = name if len(name) <= most else name[: most - 3] + "..."
    return ("\u200b" if text.startswith("_") else "") + text.replace("$", r"\$")


def where_memory_is(summary: StatsSummary) -> bytes:
    """Bytes of every page group by what they are, and how full its huge pages are."""
    with drawing(9, 3.4, ncols=2, width_ratios=(3, 2)) as (figure, (left, right)):
        names = [g.name for g in summary.groups]
        start = [0.0] * len(names)
        kinds = (("allocated", INK), ("free_slots", "#c98b2b"), ("free_blocks", LINE))
        for kind, colour in kinds:
            widths = [(getattr(g, kind) or 0) / 2**20 for g in summary.groups]
            left.barh(names, widths, left=start, color=colour, label=kind.replace("_", " "))
            start = [a + b for a, b in zip(start, widths, strict=True)]
        left.invert_yaxis()
        left.set(xlabel="MiB")
        left.set_title("where the memory is")
        left.grid(axis="x")
        left.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.22))
        _occupancy(right, summary)
        return png(figure)


def _occupancy(axes: Axes, summary: StatsSummary) -> None:
    for group, shares in summary.occupancy.items():
        pages = [i / len(shares) for i in range(len(shares) + 1)]
        colour = GROUP_COLOURS.get(group, INK)
        axes.step(pages, [*shares, shares[-1]], where="post", color=colour, label=group)
    axes.set(xlabel="pages of the group, emptiest first", ylabel="in use")
    axes.set(ylim=(0, 1.03), xlim=(0, 1))
    axes.set_title("how full its huge pages are")
    axes.grid(axis="y")
    if summary.occupancy:
        axes.legend(fontsize=9, loc="lower left")

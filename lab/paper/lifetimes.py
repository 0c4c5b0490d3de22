# SPDX-License-Identifier: Apache-2.0
"""Figure 2: the long tail of lifetimes. Figure 11a: the same, seen by sampling."""

from __future__ import annotations

from lab.paper.context import INTERVAL, Context
from lab.paper.section import Exhibit, Results, Section, percent
from llamalloc.formats import profile
from llamalloc.reporting import profile_summary
from llamalloc.reporting.pictures import ACCENT, INK, drawing, png
from llamalloc.running import simulation

PROGRAM = "images"
# Share of allocations of the paper's image server that live longer than so many seconds.
PAPER = ((1, 0.08), (10, 0.04), (100, 0.01))


def measure(context: Context) -> Results:
    """every: objects by floor(log2(ns)); sampled: share by lifetime in ns; never: not freed."""
    setting = simulation.Setting(str(context.trace(PROGRAM)), samples=1)
    result = simulation.run_all(setting, [("llamalloc", "none")])[0]
    summary = profile_summary.summarise(profile.read(context.profile(PROGRAM)))
    alive = next(row for row in summary.lifetimes if row.name == profile_summary.ALIVE)
    return {
        "every": result["lifetimes_log2_ns"],
        "never": result["never_freed"],
        "sampled": summary.buckets,
        "samples": summary.sampled,
        "alive": alive.object_share,
    }


def show(results: Results) -> Section:
    """Both distributions in one picture, and the shares that the paper names."""
    section = Section("Figures 2 and 11a: lifetimes, of all objects and of sampled ones")
    every, sampled = _longer_every(results), _longer_sampled(results)
    section.paragraphs.append(
        f"One run of the image server. Every object was recorded, and in another run one in "
        f"{INTERVAL} on average ({results['samples']:,} samples). Runs here are shorter than the "
        "paper's 448 s, so few objects can be seen to live for 100 s."
    )
    section.table(
        ("lives longer than", "paper", "all objects", "sampled"),
        [
            (f"{s} s", percent(share), _fine(_at(every, s)), _fine(_at(sampled, s)))
            for s, share in PAPER
        ],
    )
    with drawing(8, 3.6) as (figure, axes):
        for points, colour, label in ((every, INK, "all"), (sampled, ACCENT, "sampled")):
            axes.step([s for s, _ in points], [v for _, v in points], color=colour, label=label)
        axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="share that lives longer")
        axes.grid()
        axes.legend(loc="lower left")
        section.pictures["lifetimes"] = png(figure)
    return section


def _fine(share: float) -> str:
    return f"{100 * share:.2g} %"


def _longer_every(results: Results) -> list[tuple[float, float]]:
    total = sum(results["every"]) + results["never"]
    dead = [(2.0 ** (i + 1) / 1e9, count / total) for i, count in enumerate(results["every"])]
    return _longer(dead)


def _longer_sampled(results: Results) -> list[tuple[float, float]]:
    return _longer([(ns / 1e9, share) for ns, share in results["sampled"]])


def _longer(dead: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """(seconds, share that lives longer), from (seconds, share that dies by then)."""
    left, points = 1.0, []
    for seconds, share in dead:
        left -= share
        points.append((seconds, max(left, 1e-9)))
    return points


def _at(points: list[tuple[float, float]], seconds: float) -> float:
    return next((share for s, share in reversed(points) if s <= seconds), 1.0)


EXHIBIT = Exhibit("figure2", 2, measure, show)

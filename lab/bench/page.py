# SPDX-License-Identifier: Apache-2.0
"""The benchmark's page: ratios as a picture, every figure as a table, and what was compared."""

from __future__ import annotations

from pathlib import Path

from lab.allocators import OURS
from lab.bench.results import Line, Results
from lab.bench.table import BEHIND, LIVE, cells, ratio_text
from llamalloc.reporting.page import Page
from llamalloc.reporting.pictures import ACCENT, INK, SOFT, drawing, png

FEWEST, MOST = 0.25, 8.0  # the picture's ends: what lies beyond is drawn at the edge


def write(results: Results, path: Path) -> None:
    """Writes the page."""
    page = Page("llamalloc beside other allocators")
    compared = [line for line in results.lines() if line.cells]
    ahead = [line for line in compared if (ratio := line.ratio()) is not None and ratio <= BEHIND]
    judged = [line for line in compared if line.ratio() is not None]
    if judged:
        page.paragraph(
            f"Equal to the best peer or better in {len(ahead)} of {len(judged)} rows "
            f"(within {BEHIND - 1:.0%}). The best peer is chosen anew in each row."
        )
    page.picture(
        ratios(compared, [a.name for a in results.allocators]), "cost beside the best peer, by row",
        "Cost beside the best peer of each row, logarithmic; left is better. Grey: the peers.",
    )  # fmt: skip
    _tables(page, results, compared)
    _compared(page, results)
    path.write_text(page.render())


def _tables(page: Page, results: Results, lines: list[Line]) -> None:
    names = [a.name for a in results.allocators]
    kinds = (("Microbenchmarks (ns an operation)", False), ("Real programs", True))
    for title, program in kinds:
        part = [line for line in lines if line.row.program == program]
        if not part:
            continue
        page.heading(title)
        page.table(
            ("row", "what", *names, "ours / best peer"),
            [(x.row.name, x.row.title, *cells(x, names), ratio_text(x)) for x in part],
            caption="Medians over the rounds, ± half the distance of the quartiles."
            + (f" {LIVE}." if program else ""),
        )


def _compared(page: Page, results: Results) -> None:
    page.heading("What was compared, and on what")
    page.table(
        ("allocator", "version", "form"), [(a.name, a.version, a.form) for a in results.allocators]
    )
    for line in [*results.missing, *results.faults]:
        page.paragraph(line, "note")
    page.paragraph("; ".join(f"{key}: {value}" for key, value in results.machine.items()), "soft")


def ratios(lines: list[Line], names: list[str]) -> bytes:
    """Dots: each allocator's cost over the best peer's, a line a row."""
    lines = [line for line in lines if line.best_peer() is not None]
    with drawing(9, 0.26 * len(lines) + 1.2) as (figure, axes):
        for y, line in enumerate(lines):
            for name, ratio in _costs(line):
                ours = name == OURS
                axes.plot(
                    min(max(ratio, FEWEST), MOST), y, "o", markersize=8 if ours else 5,
                    color=ACCENT if ours else SOFT, alpha=1 if ours else 0.45,
                    zorder=3 if ours else 2,
                )  # fmt: skip
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xlim(FEWEST * 0.93, MOST * 1.07)
        ticks = [0.25, 0.5, 1, 2, 4, 8]
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.set_yticks(range(len(lines)), [line.row.name for line in lines])
        axes.invert_yaxis()
        axes.grid(axis="x")
        axes.set_title("cost / best peer (red: llamalloc)" if OURS in names else "cost / best peer")
        return png(figure)


def _costs(line: Line) -> list[tuple[str, float]]:
    best = line.best_peer()
    if best is None or not best.median:
        return []
    pairs = [(c.allocator, c.median / best.median) for c in line.cells if c.median]
    return [(name, 1 / ratio if line.row.higher else ratio) for name, ratio in pairs]

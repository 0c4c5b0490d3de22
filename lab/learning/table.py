# SPDX-License-Identifier: Apache-2.0
"""The table: a line for each load and run that learned, beside blind."""

from __future__ import annotations

from rich import box
from rich.table import Table

from lab.sites.results import COMPARED, Case, Results, worse
from lab.sites.rows import BLIND
from lab.sites.table import mib

# What has no goal: what the program holds is its own, and the peak is of a moment.
_SHOWN = (("live", lambda f: f.average_live), ("peak", lambda f: f.peak_charge or 0))
# What learning takes, by the process's own statistics: counters, of which unit, digits.
_TAKES = {
    "samples": (("samples",), 1, 0),
    "dropped": (("samples_dropped", "predict_dropped"), 1, 0),
    "worker, s": (("worker_nanos",), 1e9, 2),
    "tables, MiB": (("metadata",), 2**20, 1),
}


def costs(results: Results) -> Table:
    """Medians by blind's median, in brackets the worst run by it."""
    view = Table(
        title="Learning beside blind: median (worst run); 1: as blind",
        title_justify="left", box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    for head in ("load", "blind: average, MiB", "run"):
        view.add_column(head, no_wrap=True)
    for head, _ in _SHOWN:
        view.add_column(head, justify="right", no_wrap=True)
    for name, _, limit in COMPARED:
        view.add_column(f"{name} (<= {limit})", justify="right", no_wrap=True)
    for head in _TAKES:
        view.add_column(head, justify="right")
    for head in ("places", "verdict"):
        view.add_column(head)
    for case in results.guarded:
        for row in results.learned:
            view.add_row(*_line(case, row))
    return view


def _line(case: Case, row: str) -> list[str]:
    grown = worse(case, row)
    verdict = f"worse: {', '.join(grown)}" if grown else "not worse"
    return [
        *(case.name, mib(case.median(BLIND, lambda f: f.mean)), row),
        *(_cell(case, row, of) for _, of in _SHOWN),
        *(_cell(case, row, of) for _, of, _ in COMPARED),
        *(_taken(case, row, *what) for what in _TAKES.values()),
        _places(case, row),
        "failed" if case.failed else verdict,
    ]


def _cell(case: Case, row: str, of) -> str:
    ratio, blind = case.ratio(row, of), case.median(BLIND, of)
    if ratio is None or not blind:
        return "-"
    return f"{ratio:.3f} ({max(map(of, case.runs[row])) / blind:.3f})"


def _taken(case: Case, row: str, counters: tuple[str, ...], unit: float, digits: int) -> str:
    found = case.median(row, lambda f: sum(f.statistics["stats"].get(one, 0) for one in counters))
    return "-" if found is None else f"{found / unit:.{digits}f}"


def _places(case: Case, row: str) -> str:
    """In how many of the runs the gate was open at the end."""
    runs = case.runs.get(row, [])
    on = sum(f.statistics["segregation"].startswith("placement by lifetime is on") for f in runs)
    return f"{on} of {len(runs)}"

# SPDX-License-Identifier: Apache-2.0
"""Shows why RSS is not what a process costs (docs/measuring_memory.md).

A process fills huge pages and gives back 7/8 of each. RSS falls at once. What its control group is
charged for falls only when the kernel splits the pages: under memory pressure, or when something
provokes it. Small pages are shown beside.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lab.command import exit_status
from lab.measuring import experiment
from lab.measuring.experiment import WAYS, ExperimentError, Found, Sample
from lab.places import ROOT
from llamalloc.running import hugepages
from llamalloc.running.memory_group import WITHOUT

MIB = 1 << 20


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call takes half a minute and 128 MiB."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.measuring", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--pages", type=int, default=64, help="huge pages to fill (64)")
    parser.add_argument("--patience", type=float, default=1.0, help="times the waits (1)")
    usual = ROOT / "out" / "measuring" / "charge.png"
    parser.add_argument("--picture", type=Path, default=usual, help="file to write")
    options = parser.parse_args(argv)
    if options.pages < 1 or options.patience < 0:
        parser.error("--pages must be at least 1, --patience not negative")
    return options


def main(argv: list[str] | None = None) -> int:
    """0; 2 if the experiment could not run."""
    options = arguments(argv)
    return exit_status("measuring", lambda: _run(options), (ExperimentError, OSError))


def _run(options: argparse.Namespace) -> int:
    found = [experiment.run(way, options.pages, options.patience) for way in WAYS]
    Console().print(table(found))
    for line in lacks(found):
        print(line)
    from lab.measuring import picture  # matplotlib: only where something is drawn

    options.picture.parent.mkdir(parents=True, exist_ok=True)
    options.picture.write_bytes(picture.over_time(found))
    print(f"measuring: {options.picture}")
    return 0


def table(found: list[Found]) -> Table:
    """A line for each step of each way, MiB at its end, without the empty process."""
    view = Table(box=box.SIMPLE, pad_edge=False)
    for head in ("what", "step"):
        view.add_column(head, no_wrap=True)
    for head in ("RSS MiB", "of it huge", "charge MiB"):
        view.add_column(head, justify="right")
    for one in found:
        for number, (step, end) in enumerate(zip(one.way.steps, one.ends, strict=True)):
            view.add_row("" if number else one.way.title, step.title, *_cells(end))
    return view


def _cells(sample: Sample) -> tuple[str, str, str]:
    charge = "-" if sample.charge is None else f"{sample.charge / MIB:.0f}"
    return f"{sample.rss / MIB:.0f}", f"{sample.huge / MIB:.0f}", charge


def lacks(found: list[Found]) -> list[str]:
    """A line for each thing that the system cannot do, so that the table says less."""
    lines = []
    if not any(sample.huge for one in found for sample in one.samples):
        lines.append(
            f"the kernel gave no huge pages (the setting is {hugepages.setting()!r}): without them "
            "RSS and charge fall together"
        )
    if any(end.charge is None for one in found for end in one.ends):
        lines.append(f"{WITHOUT}; the experiment shows only the half that lies")
    return lines + [f"{one.way.title}: {note}" for one in found for note in one.notes]

# SPDX-License-Identifier: Apache-2.0
"""Whether memory that llamalloc counts as given back leaves the charge of the control group.

    python -m lab.workloads.given_back [--only sparse] [--runs 3]

A program fills 200 MiB and frees it so that it goes back in one way: as empty huge pages, as the
free part of sparse pages, or as mappings. The counters and the charge are read 20 times a second.
Bytes that are still charged one second after they were counted are late; the share is what was not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lab.command import exit_status
from lab.machine import machine
from lab.memory_table import mib
from lab.workloads import compared
from lab.workloads.given_back_watch import KINDS, PERIOD, WITHIN, Program, Sample, late, started
from lab.workloads.recipe import WorkloadError
from llamalloc.running import hugepages
from llamalloc.running.charge import ChargeError
from llamalloc.running.control import ControlError
from llamalloc.running.memory_group import MemoryGroup

QUIET = 3.0  # seconds without a count: all has gone that goes
LONGEST = 60.0  # seconds
NO_GROUP = "no memory control group can be made here, so no charge can be read; root may make one"


@dataclass(frozen=True)
class Run:
    """Bytes of one run; `left` and `left_rss` did so within a second."""

    freed: int
    counted: int
    left: int
    left_rss: int

    @property
    def share(self) -> float:
        return self.left / self.counted

    @property
    def share_rss(self) -> float:
        return self.left_rss / self.counted


class NoGroupError(Exception):
    """Nothing can be measured here."""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call is what the documents quote."""
    parser = compared.parser_of_ours("given_back", __doc__)
    parser.add_argument("--only", default="", help=f"of {','.join(KINDS)}; default: all")
    parser.add_argument("--live", type=compared.count, default=200, help="MiB to free (200)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prints a table; 0, 1 where no control group can be made, or 2 if something could not run."""
    options = arguments(argv)
    faults = (WorkloadError, ControlError, ChargeError)
    return exit_status("given_back", lambda: _run(options), faults)


def _run(options: argparse.Namespace) -> int:
    names = compared.only(options, KINDS, "kind")
    if not options.lib.is_file():
        raise WorkloadError(f"{options.lib} is not there; run: make build")
    found: dict[str, list[Run]] = {name: [] for name in names}
    try:
        for turn in range(1, options.runs + 1):
            for name in names:
                _say(f"run {turn} of {options.runs}: {name}")
                found[name].append(_one(name, options))
    except NoGroupError:
        _say(NO_GROUP)
        return 1
    Console(width=None if sys.stdout.isatty() else 160).print(table(found))
    print(f"transparent huge pages: {hugepages.setting()}")
    if options.json:
        write(options.json, found)
    return 0


def write(path: Path, found: dict[str, list[Run]]) -> None:
    """All runs by kind, and the machine, as JSON."""
    runs = {name: [asdict(run) for run in of_kind] for name, of_kind in found.items()}
    path.write_text(json.dumps({"machine": machine(), "kinds": runs}, indent=1) + "\n")


def _say(text: str) -> None:
    print(f"given_back: {text}", file=sys.stderr, flush=True)


def _one(kind: str, options: argparse.Namespace) -> Run:
    with MemoryGroup.made("given_back") as group:
        if group is None:
            raise NoGroupError
        with started(group, kind, options.live, options.lib.absolute(), options.conf) as program:
            freed = program.free()
            return judged(watched(program, kind, freed), kind, freed)


def watched(program: Program, kind: str, freed: int) -> list[Sample]:
    """Until QUIET after the last count. Raises WorkloadError: less than half was counted."""
    samples = [program.look()]
    moved = samples[0].at
    while samples[-1].at < LONGEST:
        time.sleep(PERIOD)
        samples.append(program.look())
        if samples[-1].counted != samples[-2].counted:
            moved = samples[-1].at
        enough = getattr(samples[-1].counted, kind) >= freed // 2
        if enough and samples[-1].at - moved > QUIET:
            return samples
    seconds = f"{LONGEST:g} s"
    raise WorkloadError(f"{kind}: less than half of what was freed went back in {seconds}")


def judged(samples: Sequence[Sample], kind: str, freed: int) -> Run:
    """What was counted of the kind, and how much of it was never late."""
    counted = getattr(samples[-1].counted, kind)
    charge, rss = (max(0, counted - late(samples, kind, f)) for f in ("charge", "rss"))
    return Run(freed, counted, charge, rss)


def table(found: dict[str, list[Run]]) -> Table:
    """A line a kind: medians of its runs, and the least share."""
    title = f"what left within {WITHIN:g} s of being counted"
    view = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    view.add_column("kind", no_wrap=True)
    heads = (
        "counted MiB",
        "left the charge MiB",
        "share",
        "worst",
        "left RSS MiB",
        "share",
        "worst",
    )
    for head in heads:
        view.add_column(head, justify="right")
    for name, runs in found.items():
        view.add_row(
            KINDS[name],
            mib(statistics.median(run.counted for run in runs)),
            mib(statistics.median(run.left for run in runs)),
            *_shares([run.share for run in runs]),
            mib(statistics.median(run.left_rss for run in runs)),
            *_shares([run.share_rss for run in runs]),
        )
    return view


def _shares(values: list[float]) -> tuple[str, str]:
    return f"{statistics.median(values):.1%}", f"{min(values):.1%}"


if __name__ == "__main__":
    raise SystemExit(main())

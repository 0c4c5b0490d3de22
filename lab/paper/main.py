# SPDX-License-Identifier: Apache-2.0
"""Writes the tables and figures of ASPLOS 2020, ours beside the paper's: docs/paper.md.

Each exhibit leaves its results in OUT, and is not measured again while they are there: an
interrupted run goes on where it was. The page is made of all results that are there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

from lab import peers
from lab.bench.rows import RowError
from lab.command import exit_status
from lab.launcher import LauncherError
from lab.machine import machine
from lab.paper import builds, ideal, lifetimes, memory, mesh, page, sampling, speed
from lab.paper.context import Context, PaperError
from lab.paper.section import Exhibit
from lab.places import ROOT
from lab.sites.build import BuildError, LackError
from lab.sites.process import RunError
from lab.workloads.recipe import WorkloadError
from llamalloc.running.simulation import SimulationError

EXHIBITS = tuple(
    module.EXHIBIT for module in (lifetimes, builds, memory, ideal, sampling, speed, mesh)
)
FAULTS = (
    *(PaperError, WorkloadError, SimulationError, RowError, LauncherError, RunError, BuildError),
    *(LackError, peers.PeerError, ValueError, OSError),
)
EXAMPLES = """examples:
  make paper                                       everything: up to an hour
  python -m lab.paper --only figure9,figure12      two of them
  python -m lab.paper --scale 0.1 --out /tmp/try   a small load, no figures to quote
"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """What is measured; a plain call measures all that is not there yet."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.paper", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = ", ".join(one.name for one in EXHIBITS)
    parser.add_argument("--only", default="", help=f"of {names}, by comma; default: all")
    parser.add_argument("--again", action="store_true", help="measure what is there, too")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the loads (1)")
    parser.add_argument("--rounds", type=int, default=1, help="measured runs of each row (1)")
    parser.add_argument("--mesh", type=Path, help="a library of Mesh, to compare with")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "paper", help="folder to write")
    parser.add_argument("--page", type=Path, help="the page (OUT/paper.md), pictures in img beside")
    options = parser.parse_args(argv)
    if options.scale <= 0 or options.rounds < 1:
        parser.error("--scale must be above 0, and --rounds at least 1")
    if options.mesh and not options.mesh.is_file():
        parser.error(f"--mesh {options.mesh}: no such file")
    known = {one.name for one in EXHIBITS}
    if unknown := set(filter(None, options.only.split(","))) - known:
        parser.error(f"no exhibit {', '.join(sorted(unknown))}; there are {names}")
    return options


def main(argv: list[str] | None = None) -> int:
    """0; 2 if an exhibit could not be made."""
    options = arguments(argv)
    return exit_status("paper", lambda: _run(options), FAULTS)


def _run(options: argparse.Namespace) -> int:
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"[{(time.monotonic() - start) / 60:4.1f} min] {text}", flush=True)

    options.out.mkdir(parents=True, exist_ok=True)
    mesh_library = options.mesh.resolve() if options.mesh else None
    context = Context(options.out, say, options.scale, options.rounds, mesh=mesh_library)
    wanted = [one for one in EXHIBITS if not options.only or one.name in options.only.split(",")]
    left = [one for one in wanted if options.again or not _is_there(context, one)]
    say(f"{len(left)} exhibits, about {sum(one.minutes for one in left) * options.rounds:.0f} min")
    for one in left:
        _measure(context, one)
    return _write(options, say)


def _file(out: Path, one: Exhibit) -> Path:
    return out / f"{one.name}.json"


def _is_there(context: Context, one: Exhibit) -> bool:
    """Measured, and in the way that is asked for now."""
    path = _file(context.out, one)
    return path.exists() and json.loads(path.read_text()).get("how") == _how(context)


def _how(context: Context) -> dict[str, object]:
    mesh_library = str(context.mesh) if context.mesh else None
    return {"scale": context.scale, "rounds": context.rounds, "mesh": mesh_library}


def _measure(context: Context, one: Exhibit) -> None:
    context.say(f"{one.name}, about {one.minutes:.0f} min")
    how = _how(context)
    results = {"machine": machine(), "how": how, "results": one.measure(context)}
    partial = _file(context.out, one).with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1) + "\n")
    shutil.move(partial, _file(context.out, one))


def _write(options: argparse.Namespace, say: page.Say) -> int:
    found = {
        one: json.loads(_file(options.out, one).read_text())
        for one in EXHIBITS
        if _file(options.out, one).exists()
    }
    path = options.page or options.out / "paper.md"
    page.write(found, path)
    say(f"{path}, pictures in {path.parent / page.PICTURES}")
    return 0

# SPDX-License-Identifier: Apache-2.0
"""How much of what was learned survives another run, another compiler, another version.

Fetches sources and packages of several Debian releases, builds them, records each build under the
same load, learns from each recording and tests on the others. Whatever was made stays in the cache,
so an interrupted call goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.command import exit_status
from lab.machine import machine
from lab.places import ROOT
from lab.versions import cases, contest, picture
from lab.versions.apt import AptError
from lab.versions.builds import PROGRAMS, BuildError, Workshop
from lab.versions.measure import Laboratory, Networks
from lab.versions.recording import Run, load_name, profile_of
from lab.versions.results import Results
from lab.workloads.recipe import WorkloadError
from llamalloc.formats.model_file import VERSION
from llamalloc.formats.profile import ProfileError
from llamalloc.learning.train import DEFAULT_STEPS

EXAMPLES = """examples:
  python -m lab.versions                        everything: about half an hour on two idle cores
  python -m lab.versions --programs rocksdb     five minutes
  python -m lab.versions --students --only-recorded
  python -m lab.versions --only-recorded        tables from the recordings that are in the cache
"""


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """What is measured; a plain call measures all."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.versions", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--programs", default=",".join(PROGRAMS), help="by comma (all)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the load (1)")
    parser.add_argument(
        "--cache", type=Path, default=_cache(), help="folder outside of any checkout"
    )
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS,
                        help=f"batches for each network; 0: none ({DEFAULT_STEPS})")  # fmt: skip
    parser.add_argument("--networks", choices=("all", "first"), default="all",
                        help="train one for each case, or for each program's first")  # fmt: skip
    parser.add_argument("--rule", choices=("tail", "p95"), default="tail",
                        help="what is right: as `train` labels (tail), or ASPLOS 2020")  # fmt: skip
    parser.add_argument("--students", action="store_true",
                        help="compare candidates for a better network instead")  # fmt: skip
    parser.add_argument("--only-recorded", action="store_true", help="record nothing new")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out" / "versions", help="folder to write"
    )
    options = parser.parse_args(argv)
    options.programs = options.programs.split(",")
    if unknown := set(options.programs) - set(PROGRAMS):
        parser.error(f"--programs: {', '.join(sorted(unknown))} is not of {', '.join(PROGRAMS)}")
    if options.scale <= 0:
        parser.error("--scale must be more than nothing")
    if options.cache.resolve().is_relative_to(ROOT):
        parser.error("--cache must be outside of the checkout: it holds other projects' sources")
    return options


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "llamalloc-versions"


def main(argv: list[str] | None = None) -> int:
    """0 if every goal is reached, 1 if one is missed or a build failed, 2 if nothing could run."""
    options = arguments(argv)
    return exit_status("versions", lambda: _run(options), (ProfileError, OSError, ValueError))


def _run(options: argparse.Namespace) -> int:
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - start:5.0f} s] {text}", file=sys.stderr, flush=True)

    results = Results(machine())
    profiles = _recorded(options, results, say)
    if not profiles:
        raise ValueError("nothing is recorded; call it without --only-recorded")
    kept = options.cache / f"networks-{VERSION}" / load_name(options.scale)
    networks = Networks(kept / f"{options.rule}-{options.steps}", options.steps, _asked(options))
    laboratory = Laboratory(profiles, networks, options.rule, say)
    found = cases.cases(list(profiles))
    if options.students:
        chosen = [case for case in found if case.is_another_build and networks.wants(case.learn)]
        return contest.show([(case, laboratory.contest(case)) for case in chosen], options.out)
    for case in found:
        results.scored.append((case, laboratory.result(case)))
    return _show(results, options)


def _asked(options: argparse.Namespace) -> set[tuple[Run, ...]] | None:
    """The sets of runs that a network learns from; None: each."""
    if options.networks == "all":
        return None
    return {(cases.runs(program)[0],) for program in options.programs}


def _recorded(
    options: argparse.Namespace, results: Results, say: Callable[[str], None]
) -> dict[Run, Path]:
    """Builds and records; what fails is left out and named."""
    shop, found = Workshop(options.cache), {}
    runs = [run for program in options.programs for run in cases.runs(program)]
    for number, run in enumerate(runs, 1):
        try:
            found[run] = profile_of(
                run, shop, options.cache, options.scale,
                lambda text, number=number: say(f"{number} of {len(runs)}: {text}"),
                only_recorded=options.only_recorded,
            )  # fmt: skip
        except (AptError, BuildError, WorkloadError) as error:
            results.missing.append(f"{run}: {error}")
            say(results.missing[-1])
    return found


def _show(results: Results, options: argparse.Namespace) -> int:
    results.write(options.out)
    picture.write(results, options.out / "versions.png")
    print(results.markdown())
    verdicts = list(results.verdicts())
    for line in [*results.missing, *verdicts]:
        print(f"versions: {line}")
    print(f"versions: {options.out} holds results.json, table.md and versions.png")
    return 1 if results.missing or any("MISSED" in line for line in verdicts) else 0

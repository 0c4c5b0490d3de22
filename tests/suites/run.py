#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs other people's test suites without us and under us, and compares the tests that fail.

Suites come from Debian packages and sources; nothing of them is kept in this repository. Each runs
once for every allocator, preloaded. A test that fails under llamalloc, and neither under glibc nor
as the suite's file expects, is unexpected: exit status 1. Results: out/suites/SUITE/*.json, logs
beside them, and out/suites/table.md. First: make build.

  run.py --list                              what there is, and what it needs
  run.py cpython                             one suite under glibc and llamalloc
  run.py cpython --allocators llamalloc --conf hardened --conf sampled
                                             two more runs, compared with the last one under glibc
  run.py --conf default --conf release_delay:0,sample_interval:64KiB
                                             all suites, with options as in LLAMALLOC_CONF
"""

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import catalog
from harness import debian, execute, record, witness
from harness.suite import Suite, SuiteError
from harness.variant import CONFIGURATIONS, LIBRARIES, OURS, ROOT, Variant, variants

OUT = ROOT / "out/suites"


def suites() -> dict[str, Suite]:
    """Every suite of the catalog by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(catalog.__path__))
    return {n.replace("_", "-"): importlib.import_module(f"catalog.{n}").SUITE for n in names}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", nargs="*", help="names as in --list; none: all")
    parser.add_argument(
        "--allocators",
        default="glibc,llamalloc",
        help=f"by commas, of {', '.join(LIBRARIES)} (default: %(default)s)",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="OPTIONS",
        help="a run of llamalloc with these options (docs/options.md), or with those that "
        f"{', '.join(CONFIGURATIONS)} stand for, or with none: default; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="name the suites, and run none")
    return parser.parse_args(arguments)


def listing(known: dict[str, Suite]) -> str:
    lines = []
    for name, suite in known.items():
        absent = debian.missing(suite.packages)
        lines.append(f"{name:16} {suite.what}")
        if absent:
            lines.append(f"{'':16} needs: apt-get install {' '.join(absent)}")
    return "\n".join(lines)


def chosen(known: dict[str, Suite], names: Sequence[str]) -> dict[str, Suite]:
    if unknown := [name for name in names if name not in known]:
        raise SuiteError(f"no such suite: {', '.join(unknown)}; known: {', '.join(known)}")
    return {name: known[name] for name in names or known}


def report(name: str, suite: Suite, run: record.Record, out: Path) -> bool:
    """Prints how a run compares with glibc's; whether nothing was unexpected."""
    glibc = record.reference(record.read_all(out), name)
    verdict = record.judge(run, glibc, suite.differences)
    print(f"{name}, {run.variant.name}: {run.counts} in {run.seconds} s; {record.remarks(verdict)}")
    for test in verdict.unexpected:
        print(f"  UNEXPECTED: {test}")
    for test, reason in verdict.expected.items():
        print(f"  expected: {test}: {reason}")
    for test in verdict.with_glibc:
        print(f"  fails with glibc as well: {test}")
    for program, (had, had_not) in run.programs.items():
        if had_not:
            print(f"  {program}: {had_not} processes were not preloaded, {had} were")
    return not verdict.unexpected


def run_suites(selected: dict[str, Suite], runs: Sequence[Variant], out: Path) -> bool:
    """Runs each suite under each variant; whether nothing was unexpected under llamalloc."""
    good = True
    for name, suite in selected.items():
        for variant in runs:
            done = execute.run(name, suite, variant, out)
            if variant.allocator == "glibc":
                print(f"{name}, glibc: {done.counts} in {done.seconds} s")
            else:
                good &= report(name, suite, done, out) or variant.allocator != OURS
    return good


def stop(number: int, _: object) -> None:
    """Ends all that runs below, and this process."""
    witness.end_all()
    os._exit(128 + number)


def own_signals() -> None:
    """An interrupt ends the tests too; they themselves find all signals as a terminal has them."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, stop)


def main(arguments: Sequence[str], out: Path = OUT) -> int:
    options = parse(arguments)
    try:
        known = suites()
        if options.list:
            print(listing(known))
            return 0
        selected = chosen(known, options.suite)
        confs = ["" if conf == "default" else conf for conf in options.conf]
        runs = variants(options.allocators.split(","), confs)
        for name, suite in selected.items():
            debian.require(name, suite.packages)
        witness.adopt_orphans()
        own_signals()
        good = run_suites(selected, runs, out)
    except SuiteError as error:
        print(f"suites: {error}", file=sys.stderr)
        return 2
    text = record.table(record.read_all(out), {n: s.differences for n, s in known.items()})
    (out / "table.md").write_text(text)
    print(f"table: {out / 'table.md'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

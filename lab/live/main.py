# SPDX-License-Identifier: Apache-2.0
"""Real clients look at processes under the library: does all work, and what does it cost?

A Prometheus scrapes a loaded Redis each second; promtool and `go tool pprof` read what it serves;
clients that do harm try to delay malloc; the pages of a large heap are timed; Redis is measured
with scrapes and without. Results: a table, and OUT/results.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lab.command import exit_status
from lab.live import harm, prometheus, redis_rate, scrapes
from lab.live.results import Results
from lab.live.target import LiveProofError
from lab.machine import machine
from lab.places import ROOT
from lab.redis_benchmark import BenchmarkError
from llamalloc.running.server import ServerError

PARTS = ("harm", "scrapes", "redis", "prometheus")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call is the whole proof: a quarter of an hour."""
    parser = argparse.ArgumentParser(prog="python -m lab.live", description=__doc__)
    parser.add_argument("--only", default="", help=f"parts, by commas, of {', '.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=120, help="of Prometheus (default 120)")
    parser.add_argument("--rounds", type=int, default=6, help="of each measurement (default 6)")
    parser.add_argument("--clients", type=int, default=1000, help="that do harm (default 1000)")
    parser.add_argument("--heap", type=float, default=10, help="GB, for the cost (default 10)")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "live", help="folder to write")
    options = parser.parse_args(argv)
    options.parts = [p for p in options.only.split(",") if p] or list(PARTS)
    if unknown := [p for p in options.parts if p not in PARTS]:
        parser.error(f"no part {unknown[0]}; there are {', '.join(PARTS)}")
    if options.rounds < 1 or options.clients < 1 or options.seconds < 5:
        parser.error("--rounds, --clients: at least 1; --seconds: at least 5")
    return options


def main(argv: list[str] | None = None) -> int:
    """0: all as it should be; 1: something was not; 2: something could not be run."""
    options = arguments(argv)
    faults = (LiveProofError, ServerError, BenchmarkError)
    return exit_status("live-proof", lambda: _run(options), faults)


def _run(options: argparse.Namespace) -> int:
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - start:4.0f} s] {text}", file=sys.stderr, flush=True)

    results = Results(machine())
    if "harm" in options.parts:
        results.harm = harm.measure(options.rounds, 2.0, options.clients, say)
    if "scrapes" in options.parts:
        results.pages, results.costs = scrapes.measure(int(options.heap * 1e9), options.rounds, say)
    if "redis" in options.parts:
        results.rates = redis_rate.measure(options.rounds, say)
    if "prometheus" in options.parts:
        results.scraped = prometheus.measure(options.seconds, options.out, say)
    print(results.table())
    results.write(options.out / "results.json")
    print(f"live-proof: {options.out / 'results.json'}")
    for fault in results.faults():
        print(f"live-proof: FAULT {fault}")
    return 1 if results.faults() else 0

# SPDX-License-Identifier: Apache-2.0
"""Records five loads, replays each under the library, simulates the same, and compares memory.

Prints the table of docs/heap_policy.md, section "The simulator agrees with the library".
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab.agreement.loads import LOADS, Load, LoadError, make
from lab.places import ROOT
from llamalloc.running import simulation
from llamalloc.running.simulation import Agreement, Setting, SimulationError

_HEADS = ("trace", "seconds", "peak", "average", "at the peak", "late at worst")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call compares all of them."""
    parser = argparse.ArgumentParser(prog="python -m lab.agreement", description=__doc__)
    parser.add_argument("--only", default="", help="loads, e.g. redis,clang; default: all")
    parser.add_argument("--reuse", action="store_true", help="take the traces of the last call")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "agreement", help="for traces")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """0: they agree; 1: some do not; 2: something could not be run."""
    options = arguments(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - start:4.0f} s] {text}", file=sys.stderr, flush=True)

    try:
        found = {load.name: _compare(load, options, say) for load in chosen(options.only)}
    except (LoadError, SimulationError) as error:
        print(f"agreement: {error}", file=sys.stderr)
        return 2
    print(table(found))
    return 0 if all(agreement.holds for agreement in found.values()) else 1


def chosen(only: str) -> list[Load]:
    """Those named, in their order. Raises LoadError for an unknown name."""
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [load.name for load in LOADS]
    for name in names:
        if name not in known:
            raise LoadError(f"no load {name}; there are {', '.join(known)}")
    return [load for load in LOADS if not names or load.name in names]


def _compare(load: Load, options: argparse.Namespace, say: Callable[[str], None]) -> Agreement:
    trace = options.out / f"{load.name}.trace"
    if not (options.reuse and trace.exists()):
        say(f"{load.name}: recording" if load.scale else f"{load.name}: generating")
        make(load, trace)
    say(f"{load.name}: replaying and simulating")
    return simulation.compare_with_replay(Setting(str(trace)))


def table(found: dict[str, Agreement]) -> str:
    """As Markdown; simulated by replayed."""
    rows = [_HEADS, ["---"] * len(_HEADS), *(_row(*item) for item in found.items())]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(name: str, agreement: Agreement) -> list[str]:
    return [
        name,
        f"{agreement.seconds[-1]:.0f}",
        f"{max(agreement.real) / 2**20:.0f} MiB",
        f"{agreement.average:.3f}",
        f"{agreement.peak:.3f}",
        f"{agreement.late:.2f} s",
    ]

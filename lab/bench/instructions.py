# SPDX-License-Identifier: Apache-2.0
"""Instructions of a call of malloc, free and their siblings, counted by callgrind.

Patterns: `pair`, 64 bytes allocated and freed at once; `churn`, 2,000 objects of 16..1000 bytes
replaced at random; `medium` and `large`, pairs of 64 KiB and of 1 MiB; `calloc`, pairs of 64 zeroed
bytes; `growth`, a buffer that realloc grows from 16 bytes to 1 MiB by 1.3 at a time (copying is
part of it); `remote`, 64 bytes that another thread frees. The pairs are counted more often for
ours. Where it places objects by lifetime: by what the call site decides, as learned in process
(later, and while contexts are explored) and as a model says, by what a caller of it decides, and
where nothing is known of the stack. And where it learns, but the gate is off, in a small heap and
in a large one, samples apart, each beside the same without learning. A figure is the mean of a
steady state: the difference of a long and a short run, so that starting up and growing fall out.
Counts are deterministic, but for those with two threads, and where the worker takes a turn; the
harness' own instructions are not part of them. Not the same as time, yet no neighbour disturbs
them.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from lab import allocators, peers
from lab.allocators import OURS, Allocator
from lab.launcher import LLAMALLOC
from lab.places import COUNT_CALLS, LIBRARY, ROOT

# Pattern of count_calls -> the calls that it makes.
PATTERNS = {
    "pair": ("malloc", "free", "new", "delete"),
    "churn": ("malloc", "free", "new", "delete"),
    "medium": ("malloc", "free"),
    "large": ("malloc", "free"),
    "calloc": ("calloc", "free"),
    "growth": ("realloc",),
    "remote": ("malloc", "free"),
}
# Of ours alone: a caller of the site decides.
CALLERS = {"callers": ("malloc", "free")}
# What cannot be counted under valgrind, and why.
NOT_HERE = {
    "snmalloc": "it cannot reserve its address space under valgrind",
    "tcmalloc": "valgrind has no restartable sequences, so its fast path would not run",
}
SHORT, LONG = 20_000, 60_000
TURNS = 400_000  # operations of `callers` from which it is learned
# After so many seconds contexts are no longer explored (src/engine/learning_steps.cc).
EXPLORES = 25
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}  # as valgrind calls them
# What the program that callgrind runs is called by its /proc/self/exe.
CALLGRIND = f"callgrind-{MACHINES.get(platform.machine(), platform.machine())}-linux"
# Ours, with where it has its predictions from.
LEARNED, EXPLORED, MODEL, UNKNOWN, BY_CALLER = (
    f"{OURS}, {by}"
    for by in ("learned", "explored", "a model", "nothing known", "a caller decides")
)
# MiB held. Samples begin above 64 (LearningRun::kLeastHeap).
SMALL, LARGE = 16, 96
# Seconds after which the worker has had its turns, where there is one; and runs, as in some it
# takes another one.
SETTLES, TRIES = 2, 3

_NAME = re.compile(r"(c?fn)=\((\d+)\)(?: (.*))?$")
_CALLS = re.compile(r"calls=(\d+)")


class CountError(RuntimeError):
    """callgrind is missing or failed; the message says which."""


def inclusive(text: str) -> dict[str, tuple[int, int]]:
    """{function of the harness: (calls it made, instructions in what it called)}.

    `text` is a callgrind.out file (format version 1, one event): a `calls=N` line is followed by
    one that ends with the inclusive cost of those calls.
    """
    names: dict[str, str] = {}
    found: dict[str, tuple[int, int]] = {}
    current, calls = "", None
    for line in text.splitlines():
        if match := _NAME.match(line):
            name = names.setdefault(match[2], match[3] or "")
            current = name if match[1] == "fn" else current
        elif match := _CALLS.match(line):
            calls = int(match[1])
        elif calls is not None:
            if current.startswith("bench_"):
                before = found.get(current, (0, 0))
                found[current] = (before[0] + calls, before[1] + int(line.split()[1]))
            calls = None
    return found


def steady(
    short: dict[str, tuple[int, int]], long: dict[str, tuple[int, int]], which: tuple[str, ...]
) -> dict[str, float]:
    """Instructions a call between the two runs, by call. Raises CountError if one is missing."""
    figures = {}
    for call in which:
        name = f"bench_{call}"
        if name not in long or name not in short or long[name][0] == short[name][0]:
            raise CountError(f"callgrind saw no calls from {name}; was count_calls stripped?")
        calls, cost = (long[name][i] - short[name][i] for i in (0, 1))
        figures[call] = cost / calls
    return figures


def least(runs: list[dict[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """The least of each cost: a turn of the worker only adds."""
    return {name: min(run[name] for run in runs) for name in runs[0]}


def count(allocator: Allocator, pattern: str, tries: int = 1) -> dict[str, float]:
    """Instructions a call, by call, in the steady state of a pattern; the least of so many runs."""

    def run(operations: int) -> dict[str, tuple[int, int]]:
        texts = (_callgrind(allocator, pattern, operations) for _ in range(tries))
        return least([inclusive(text) for text in texts])

    with ThreadPoolExecutor() as pool:
        runs = pool.map(run, (SHORT, LONG))
    return steady(*runs, (PATTERNS | CALLERS)[pattern])


@dataclass(frozen=True)
class Configured(Allocator):
    """Ours with options. The program holds `held` MiB and waits `seconds` before it is counted."""

    options: str = ""
    seconds: int = 0
    held: int = 0
    pattern: str = "pair"

    def environment(self) -> dict[str, str]:
        return super().environment() | {"LLAMALLOC_CONF": self.options}


def configured(
    ours: Allocator, name: str, options: str, seconds: int = 0, held: int = 0
) -> Configured:
    """Ours by another name, with options."""
    return Configured(name, ours.preload, ours.version, ours.form, "", options, seconds, held)


def placing(ours: Allocator, folder: Path) -> list[Configured]:
    """Ours with each kind of prediction, learned from what is counted then. `folder` keeps it.

    Objects are placed by lifetime from the first one on. For the first EXPLORES seconds it may look
    at the stack of each allocation in search of unknown ones. Raises CountError if it cannot be
    counted or trained.
    """

    def by(name: str, predictions: str, seconds: int = 0) -> Configured:
        return configured(ours, name, f"segregate:always,{predictions}", seconds)

    # Not under callgrind: at its speed, on a busy machine, many a pair would live long. Yet under
    # the name of a program there, as what is learned in one program is not used in another.
    program = folder / CALLGRIND
    shutil.copy(_harness(), program)

    def learn(pattern: str, operations: int) -> Path:
        learned = folder / f"{pattern}.learned"
        learning = by(LEARNED, f"learn:{learned},sample_interval:512")
        command = [str(program), pattern, str(operations)]
        done = subprocess.run(command, env=learning.environment(), check=False)
        if done.returncode != 0 or not learned.exists():
            raise CountError(f"{OURS} kept nothing of what it learned")
        return learned

    with ThreadPoolExecutor() as pool:
        learned, of_callers = pool.map(learn, ("pair", "callers"), (3_000_000, TURNS))
    model = folder / "pair.model"
    command = [*LLAMALLOC, "train", "-o", str(model), str(learned)]
    trained = subprocess.run(command, capture_output=True, text=True, check=False)
    if trained.returncode != 0:
        raise CountError(f"llamalloc train: {trained.stderr.strip()}")
    samples = "sample_interval:1GiB"  # none: they would be counted, too
    by_caller = by(BY_CALLER, f"learn:{of_callers},{samples}", EXPLORES)
    return [
        by(LEARNED, f"learn:{learned},{samples}", EXPLORES),
        by(EXPLORED, f"learn:{learned},{samples}"),
        by(MODEL, f"model:{model},{samples}"),
        replace(by_caller, pattern="callers"),
        by(UNKNOWN, f"learn:on,{samples}"),
    ]


def _harness() -> Path:
    if not COUNT_CALLS.exists():
        raise CountError(f"{COUNT_CALLS} is not there; `make bench` builds it")
    return COUNT_CALLS


def _callgrind(allocator: Allocator, pattern: str, operations: int) -> str:
    with tempfile.TemporaryDirectory(prefix="llamalloc-count-") as folder:
        out = Path(folder) / "out"
        command = ["valgrind", "--tool=callgrind", "-q", "--separate-threads=no", "--branch-sim=no",
                   "--compress-strings=yes", "--compress-pos=no", f"--callgrind-out-file={out}",
                   str(_harness()), pattern, str(operations)]  # fmt: skip
        if isinstance(allocator, Configured):
            command += [str(allocator.seconds), str(allocator.held)]
        environment = allocator.environment()
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=300
            )
        except FileNotFoundError:
            raise CountError("valgrind is missing: apt-get install valgrind") from None
        if done.returncode != 0 or not out.exists():
            said = (done.stderr.strip().splitlines() or ["nothing said"])[-1]
            raise CountError(f"valgrind ended with {done.returncode} on {allocator.name}: {said}")
        return out.read_text()


def count_placing(ours: Allocator) -> dict[str, dict[str, float]]:
    """{ours with predictions: {call: instructions}} of pairs. Raises CountError."""
    with tempfile.TemporaryDirectory(prefix="llamalloc-count-") as folder:
        # Side by side: most of each is a wait for what it learns.
        ways = placing(ours, Path(folder))
        with ThreadPoolExecutor(len(ways)) as pool:
            counts = pool.map(lambda one: count(one, one.pattern), ways)
            return {one.name: n for one, n in zip(ways, counts, strict=True)}


def gate_off(ours: Allocator, held: int) -> tuple[Configured, Configured]:
    """Ours without learning, and with it while the gate is off, in a heap of `held` MiB.

    A large heap takes samples. Here they are too rare to fall into the count: what one costs is
    another figure. A small heap has none; once a MiB it looks whether it has become large.
    """
    samples = ",sample_interval:1TiB" if held > SMALL else ""
    name = f"{OURS}, {held} MiB held"
    return (
        configured(ours, name, "", SETTLES, held),
        configured(ours, f"{name}, learns", f"learn:on{samples}", SETTLES, held),
    )


def count_gate_off(ours: Allocator, held: int) -> list[dict[str, float]]:
    """[without learning, with it]: {call: instructions} of pairs, as gate_off says."""
    return [count(one, "pair", TRIES) for one in gate_off(ours, held)]


def table(figures: dict[str, dict[str, dict[str, float]]]) -> Table:
    """{pattern: {allocator: {call: instructions}}} as a table."""
    view = Table(title="instructions a call", title_justify="left", box=box.SIMPLE, pad_edge=False)
    view.add_column("allocator", no_wrap=True)
    columns = [(pattern, call) for pattern, calls in PATTERNS.items() for call in calls]
    for pattern, call in columns:
        view.add_column(f"{pattern} {call}", justify="right")
    for name in dict.fromkeys(name for by in figures.values() for name in by):
        counts = [figures[pattern].get(name, {}).get(call) for pattern, call in columns]
        view.add_row(name, *("-" if n is None else f"{n:.1f}" for n in counts))
    return view


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/instructions", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--allocators", default="", help=f"of {','.join(allocators.NAMES)}")
    parser.add_argument("--lib", type=Path, default=LIBRARY, help="our library (this build's)")
    default = ROOT / "out" / "bench" / "instructions.json"
    parser.add_argument("--json", type=Path, default=default, help="file to write")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """0 if every count was taken, 1 if some failed, 2 if nothing could run."""
    options = arguments(argv)
    try:
        names = allocators.chosen([n for n in options.allocators.split(",") if n])
        for name in NOT_HERE.keys() & set(names):
            print(f"instructions: {name} is left out: {NOT_HERE[name]}")
        names = [name for name in names if name not in NOT_HERE]
        built = {allocators.BUILT[name] for name in names if name in allocators.BUILT}
        failed = peers.ensure(built, lambda text: print(f"instructions: {text}", flush=True))
        found, missing = allocators.present(names, options.lib, failed)
    except ValueError as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    faults = list(missing)
    figures: dict[str, dict[str, dict[str, float]]] = {pattern: {} for pattern in PATTERNS}
    for allocator in found:
        for pattern in PATTERNS:
            print(f"instructions: {pattern} on {allocator.name}", file=sys.stderr, flush=True)
            try:
                figures[pattern][allocator.name] = count(allocator, pattern)
            except CountError as error:
                faults.append(str(error))
    if ours := next((one for one in found if one.ours), None):
        try:
            figures["pair"] |= count_placing(ours)
            for held in (SMALL, LARGE):
                names = (one.name for one in gate_off(ours, held))
                figures["pair"] |= dict(zip(names, count_gate_off(ours, held), strict=True))
        except CountError as error:
            faults.append(str(error))
    Console(width=None if sys.stdout.isatty() else 160).print(table(figures))
    for fault in faults:
        print(f"instructions: {fault}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())

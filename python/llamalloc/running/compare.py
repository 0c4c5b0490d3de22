# SPDX-License-Identifier: Apache-2.0
"""A server under load on several allocators, in rounds: each allocator once, then all again.

    start -> ready -> load -> settle -> memory -> SIGTERM      in a control group of its own

Figures of one round are compared with each other only, so that a slow change of the machine, such
as other work on it, falls out.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from llamalloc.formats import elf
from llamalloc.running import (
    allocators,
    ending,
    launch,
    listening,
    load_figures,
    procmem,
    server,
    shell,
)
from llamalloc.running.allocators import DEBIAN, Entry
from llamalloc.running.charge import ChargeError
from llamalloc.running.memory_group import MemoryGroup, entered
from llamalloc.running.memory_watch import MemoryWatch

SHIPPED, BLIND, FIRST, SECOND = "shipped", "llamalloc", "learns-1", "learns-2"
_OURS = {
    BLIND: "llamalloc",
    FIRST: "llamalloc, learns, first run",
    SECOND: "llamalloc, learns, second run",
}
_SHORTEST = 1.0  # seconds: of less there is no mean
_PATIENCE = 30.0  # seconds, to end
_LOOK = 0.25  # seconds between two looks whether the server still starts
_ENDS = 1.0  # seconds, from its last answer until it has ended: it may be writing a core
_LAST_LINES = 4


class CompareError(RuntimeError):
    """A run failed, so nothing can be compared. One message: what happened, and what to do."""


@dataclass(frozen=True)
class Variant:
    """What serves malloc. `preload`: a soname or path; empty: nothing is preloaded."""

    name: str
    title: str
    preload: str = ""
    learns: bool = False


@dataclass(frozen=True)
class Plan:
    """What is run. Commands of `load`, `ready` and `before` go to a shell."""

    command: list[str]
    load: str
    ready: str = ""
    before: str = ""
    settle: float = 5.0
    patience: float = 60.0  # seconds, to be ready
    throughput: str = ""  # regular expressions
    latency: str = ""
    conf: str = ""  # options of our library


@dataclass(frozen=True)
class Measured:
    """Of one run: bytes, requests a second, milliseconds. None where it is not known."""

    rss: int
    rss_peak: int
    charge: int | None = None
    charge_average: int | None = None
    charge_peak: int | None = None
    per_second: float | None = None
    p99_ms: float | None = None


@dataclass
class Row:
    """One allocator: its runs by round."""

    variant: Variant
    runs: list[Measured] = field(default_factory=list)


# ----- What is compared -----


def variants(program: Path, names: Sequence[str] = ()) -> list[Variant]:
    """As shipped, those that are installed, ours. `names`: only these, and as shipped. Raises
    CompareError for an unknown name or one that is not installed."""
    own = linked_malloc(program)
    shipped = Variant(SHIPPED, f"as shipped ({own.title if own else 'glibc'})")
    known = [e.typed for e in DEBIAN] + list(_OURS)
    if unknown := [n for n in names if n not in known and n != SHIPPED]:
        raise CompareError(f"no allocator {unknown[0]!r}; there are: {SHIPPED}, {', '.join(known)}")
    for entry in DEBIAN:
        if entry.typed in names and not entry.is_installed():
            raise CompareError(
                f"{entry.typed} is not installed: the loader finds no {entry.soname} "
                f"(Debian: apt-get install {entry.package})"
            )
    others = [
        Variant(e.typed, e.title, e.soname)
        for e in DEBIAN
        if (e.typed in names) or (not names and e.is_installed() and not _is_shipped(e, own))
    ]
    library = str(launch.find_library())
    ours = [
        Variant(name, title, library, learns=name != BLIND)
        for name, title in _OURS.items()
        if not names or name in names
    ]
    if any(v.name == SECOND for v in ours) and not any(v.name == FIRST for v in ours):
        raise CompareError(f"{SECOND} begins with what {FIRST} has learned; name both")
    return [shipped, *others, *ours]


def linked_malloc(program: Path) -> Entry | None:
    """The allocator that the program is linked to; None: the C library's."""
    try:
        needed = elf.read(launch.loaded_file(program)).needed
    except (elf.ElfError, OSError):
        return None
    return next((e for e in DEBIAN if e.name != "glibc" and e.soname in needed), None)


def _is_shipped(entry: Entry, own: Entry | None) -> bool:
    return entry == own if own else entry.name == "glibc"


def versions(rows: Sequence[Variant]) -> dict[str, str]:
    """By the name of a variant, as far as the system's package manager knows."""
    return {
        e.typed: allocators.package_version(e.package)
        for e in DEBIAN
        if any(v.name == e.typed for v in rows)
    }


# ----- Rounds -----


def run(
    plan: Plan, chosen: Sequence[Variant], rounds: int, say: Callable[[str], None]
) -> list[Row]:
    """The complete rounds: all, or those before a run failed. Raises CompareError if the first
    round fails."""
    rows = [Row(variant) for variant in chosen]
    for number in range(1, rounds + 1):
        try:
            found = _round(
                plan, chosen, lambda text, n=number: say(f"round {n} of {rounds}: {text}")
            )
        except (CompareError, OSError) as error:
            if number == 1:
                raise
            say(f"{error}; {_shown(number - 1)}")
            break
        for row, measured in zip(rows, found, strict=True):
            row.runs.append(measured)
    return rows


def _shown(rounds: int) -> str:
    return "the first round is shown" if rounds == 1 else f"the first {rounds} rounds are shown"


def _round(plan: Plan, chosen: Sequence[Variant], say: Callable[[str], None]) -> list[Measured]:
    found = []
    with tempfile.TemporaryDirectory(prefix="llamalloc-compare-") as folder:
        for variant in chosen:
            say(variant.title)
            found.append(_one(plan, variant, Path(folder)))
            if variant.name == FIRST and not list(Path(folder).glob("learned/*")):
                say(
                    "nothing learned was kept: the heap stayed below 64 MiB, or the server was "
                    "too short-lived, or ends at SIGTERM without its exit handlers"
                )
    return found


def _environment(plan: Plan, variant: Variant, folder: Path) -> dict[str, str]:
    base = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LLAMALLOC_CONF")}
    if variant.name not in _OURS:
        return base | ({"LD_PRELOAD": variant.preload} if variant.preload else {})
    options = launch.parse_conf(plan.conf)
    if variant.learns:
        (folder / "learned").mkdir(exist_ok=True)
        options["learn"] = f"{folder}/learned/"
    return launch.environment(Path(variant.preload), options, base)


def _one(plan: Plan, variant: Variant, folder: Path) -> Measured:
    if plan.before:
        _shell(plan.before, "--before")
    environment = _environment(plan, variant, folder)
    output = folder / f"{variant.name}.txt"
    with MemoryGroup.made("compare") as group:
        words, shared = entered(group, plan.command, environment)
        with _started(words, shared, output) as started:
            _wait_until_ready(plan, started, variant)
            _must_be_preloaded(started, variant)
            with MemoryWatch(started.process.pid, group) as watch:
                begun = time.monotonic()
                said = _load(plan, started, variant)
                time.sleep(plan.settle)
                _must_run(started, variant, "after the load")
                found = _memory(started.process.pid, group, watch)
                if time.monotonic() - begun < _SHORTEST:
                    found["charge_average"] = None
            started.terminate()
            if started.wait(_PATIENCE) is None:
                raise CompareError(f"{_name(plan)}: does not end within 30 s of SIGTERM")
    figures = load_figures.read(said, plan.throughput, plan.latency)
    return Measured(**found, per_second=figures.per_second, p99_ms=figures.p99_ms)


@contextlib.contextmanager
def _started(
    words: list[str], environment: Mapping[str, str], output: Path
) -> Iterator[server.Server]:
    started = None
    try:
        with ending.held():
            started = server.Server(words, environment, output)
        yield started
    finally:
        if started is not None:
            started.kill()


def _name(plan: Plan) -> str:
    return Path(plan.command[0]).name


def _wait_until_ready(plan: Plan, started: server.Server, variant: Variant) -> None:
    pid = started.process.pid
    deadline = time.monotonic() + plan.patience

    def starts() -> bool:
        return started.wait(0) is None and time.monotonic() < deadline

    def ready() -> bool:
        if not plan.ready:
            return listening.listens(pid)
        return _succeeds(plan.ready, starts)

    try:
        started.wait_until(ready, plan.patience, _name(plan))
    except server.ServerError as error:
        listens = "" if plan.ready else "; if it never listens, say by --ready CMD when it is ready"
        raise CompareError(f"{variant.title}: {error}{listens}") from None


def _must_be_preloaded(started: server.Server, variant: Variant) -> None:
    """A launcher script may lose the environment, and all rows would be the same."""
    name = Path(variant.preload).name.partition(".so")[0]
    if not variant.preload or variant.preload.startswith("libc.so"):
        return
    for pid in listening.family(started.process.pid):
        try:
            if any(name in file for file in procmem.mapped_files(pid)):
                return
        except OSError:
            continue
    raise CompareError(
        f"{variant.title}: {variant.preload} is not in the server; it said: "
        f"{_last(started.output())}. See: llamalloc doctor {started.words[-1]}"
    )


def _must_run(started: server.Server, variant: Variant, when: str) -> None:
    if (status := started.process.poll()) is not None:
        how = f"by signal {-status}" if status < 0 else f"with {status}"
        raise CompareError(
            f"{variant.title}: the server ended {how} {when}; {started.last_words()}"
        )


def _load(plan: Plan, started: server.Server, variant: Variant) -> str:
    """Runs the load; what it printed. Raises CompareError if it or the server fails."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with shell.running(plan.load, _clean(), output) as load:
            while load.poll() is None:
                _must_run(started, variant, "under the load")
                time.sleep(0.05)
        output.seek(0)
        said = output.read()
    if load.returncode != 0:
        started.wait(_ENDS)  # its sockets close first, and the load fails
    _must_run(started, variant, "under the load")
    if load.returncode != 0:
        raise CompareError(
            f"{variant.title}: the load command ended with {load.returncode}: {_last(said)}"
        )
    return said


def _memory(pid: int, group: MemoryGroup | None, watch: MemoryWatch) -> dict[str, int | None]:
    """Of the server's processes, as fields of Measured."""
    members = list(listening.family(pid))
    rss = [_rss(member, shared=len(members) > 1) for member in members]
    peaks = [_status(member, "VmHWM") for member in members]
    found: dict[str, int | None] = {"rss": sum(rss), "rss_peak": max(sum(peaks), sum(rss))}
    charged = watch.charge()
    if group is None or charged is None:
        return found
    try:
        charge = group.read().charge
    except ChargeError as error:
        raise CompareError(str(error)) from None
    return found | {
        "charge": charge,
        "charge_average": charged.average,
        "charge_peak": charged.peak,
    }


def _rss(pid: int, shared: bool) -> int:
    """Of several processes the proportional share, so that nothing counts twice."""
    text = procmem.read_text(f"/proc/{pid}/smaps_rollup")
    wanted = "Pss:" if shared else "Rss:"
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if wanted in line), 0)


def _status(pid: int, row: str) -> int:
    lines = procmem.read_text(f"/proc/{pid}/status").splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(row)), 0)


# ----- Commands -----


def _clean() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LLAMALLOC_CONF")}


def _succeeds(command: str, goes_on: Callable[[], bool]) -> bool:
    """False also where it has not ended when `goes_on` says no: then it is killed."""
    with shell.running(command, _clean(), subprocess.DEVNULL) as process:
        while goes_on():
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOK) == 0
        ending.kill(process, group=True)
    return False


def _shell(command: str, option: str) -> None:
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        with shell.running(command, _clean(), output) as process:
            process.wait()
        output.seek(0)
        if process.returncode != 0:
            raise CompareError(f"{option} ended with {process.returncode}: {_last(output.read())}")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-_LAST_LINES:]) or "it printed nothing"


# ----- Ratios -----


@dataclass(frozen=True)
class Column:
    """A figure of Measured. `better`: -1 the smaller, 1 the larger."""

    name: str
    title: str
    short: str
    better: int
    unit: str = "bytes"


COLUMNS = (
    Column("charge", "charge after", "charge", -1),
    Column("charge_average", "charge, mean", "mean", -1),
    Column("charge_peak", "charge, peak", "peak", -1),
    Column("rss", "RSS after", "RSS", -1),
    Column("rss_peak", "RSS, peak", "RSS peak", -1),
    Column("per_second", "throughput", "per second", 1, "/s"),
    Column("p99_ms", "p99 latency", "p99", -1, "ms"),
)


def columns(rows: Sequence[Row]) -> list[Column]:
    """Those that every run has."""
    return [c for c in COLUMNS if all(getattr(m, c.name) for r in rows for m in r.runs)]


def ratios(row: Row, shipped: Row, column: Column) -> Iterator[float]:
    """To the shipped one of the same round."""
    for own, base in zip(row.runs, shipped.runs, strict=True):
        yield getattr(own, column.name) / getattr(base, column.name)


def worst(values: Sequence[float], column: Column) -> float:
    return min(values) if column.better > 0 else max(values)

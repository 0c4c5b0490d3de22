# SPDX-License-Identifier: Apache-2.0
"""Runs one recipe under one launcher, and measures its program.

prepare -> start -> (server: ready -> load -> settle -> stop) -> end
"""

from __future__ import annotations

import re
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from lab import launcher
from lab.live_watch import LiveWatch
from lab.workloads.recipe import Recipe, Session, WorkloadError
from llamalloc.running import procmem
from llamalloc.running.charge import ChargeError
from llamalloc.running.memory_figures import Memory, Sizes
from llamalloc.running.memory_group import MemoryGroup, entered
from llamalloc.running.memory_watch import peak_charge
from llamalloc.running.periodic import Periodic
from llamalloc.running.server import Server, ServerError, free_port, program_pid

_START = 120.0  # seconds that a server may take to start, under a tracer too
_STOP = 120.0
_FILES = 20_000  # descriptors: two ends of 5,000 connections, with room
_REST = (2.0, 2.9)  # seconds after the line of results: the last of the three quiet ones


@dataclass(frozen=True)
class Options:
    """How to run: words before the program, a library to preload, the load's size."""

    under: str = ""
    preload: str = ""
    scale: float = 1.0
    seed: int = 1
    settle: float = 2.0
    conf: str = ""  # options of llamalloc
    live: bool = False  # whether to watch what the program holds; under llamalloc only
    output: Path | None = None  # of the program; None: a file that is shown if it fails


@dataclass
class Outcome:
    """Seconds and bytes. `rss` and `charge`: of a server after its load and `settle`; else the last
    seen. Charges are None without a memory control group; a launcher that stays beside the program
    is in it, too: `launched`. `live` is the most that the program had allocated, as it says itself
    or llamalloc does; 0: neither does. `average_live` 0: not watched. `result`: the line of
    Recipe.result, seen `result_at` seconds after the start."""

    name: str
    seconds: float = 0.0
    cpu: float = 0.0
    peak_rss: int = 0
    rss: int = 0
    huge: int = 0
    anonymous: int = 0
    series: list[tuple[float, int]] = field(default_factory=list)
    charge: int | None = None
    peak_charge: int | None = None
    charges: list[tuple[float, int]] = field(default_factory=list)
    launched: bool = False
    average_live: int = 0
    live: int = 0
    result: str = ""
    result_at: float | None = None

    @property
    def average_rss(self) -> float:
        return _mean(self.series)

    @property
    def average_charge(self) -> float | None:
        return _mean(self.charges) if self.charges else None

    def memory(self) -> Memory:
        """All of it."""
        charge = None
        if self.charge is not None:
            charge = Sizes(self.charge, round(_mean(self.charges)), self.peak_charge or 0)
        rss = Sizes(self.rss, round(self.average_rss), self.peak_rss)
        return Memory(rss, charge, self.live)

    def at_rest(self) -> tuple[int, int]:
        """RSS and charge on average, while a program that has said its result holds what stays; 0:
        it was not seen then."""
        rss, charge = (round(_mean(self._rest(series))) for series in (self.series, self.charges))
        return rss, charge

    def _rest(self, series: list[tuple[float, int]]) -> list[tuple[float, int]]:
        if self.result_at is None:
            return []
        begin, end = (self.result_at + after for after in _REST)
        return [(at, value) for at, value in series if begin <= at < end]


def _mean(series: list[tuple[float, int]]) -> float:
    return statistics.fmean(value for _, value in series) if series else 0.0


def run(recipe: Recipe, options: Options, say: Callable[[str], None]) -> Outcome:
    """Runs it to its end. Raises WorkloadError: a lack, a crash, a wrong exit code."""
    check(recipe)
    prefix, environment = launcher.under(options.under), _environment(options)
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix=f"llamalloc-{recipe.name}-") as folder:
        session = Session(Path(folder), free_port(), options.scale, options.seed, say)
        say("preparing")
        recipe.prepare(session)
        output = options.output or Path(folder) / "output"
        say("running" + (f" under {options.under}" if prefix else ""))
        command = [*prefix, *recipe.command(session)]
        with MemoryGroup.made(recipe.name) as group:
            words, shared = entered(group, command, {**environment, **recipe.environment})
            server = Server(words, shared, output, inherit_stderr=bool(prefix))
            return _attend(recipe, session, server, options, group)


def check(recipe: Recipe) -> None:
    """Raises WorkloadError where a program of the recipe is not installed."""
    if missing := recipe.missing():
        raise WorkloadError(
            f"{recipe.name}: {', '.join(missing)} not found; install: "
            + (recipe.install or f"apt-get install {' '.join(recipe.packages)}")
        )


def _environment(options: Options) -> dict[str, str]:
    try:
        found = launcher.with_preload(launcher.clean_environment(), options.preload)
        return found | ({"LLAMALLOC_CONF": options.conf} if options.conf else {})
    except launcher.LauncherError as error:
        raise WorkloadError(str(error)) from error


def _attend(
    recipe: Recipe, session: Session, server: Server, options: Options, group: MemoryGroup | None
) -> Outcome:
    outcome, start = Outcome(recipe.name), time.monotonic()
    try:
        with (
            _Watch(server, recipe.result, outcome, start, group, bool(options.under)) as watch,
            _live_watch(server, options) as live,
        ):
            if recipe.is_server():
                _serve(recipe, session, server, options)
                watch.stop()  # what it does to its memory to end is not of the load
                if live:
                    live.stop()
                outcome.live = recipe.most_live(session)
                server.terminate()
            status = server.wait(_STOP if recipe.is_server() else None)
        if status is None:
            raise WorkloadError(f"it did not end within {_STOP:.0f} s of SIGTERM")
    except BaseException as error:
        server.kill(patience=5)
        if isinstance(error, ServerError):
            raise WorkloadError(str(error)) from error
        if isinstance(error, OSError):
            raise WorkloadError(f"{recipe.name}: {error}; {server.last_words()}") from error
        raise
    outcome.seconds = time.monotonic() - start
    if live:
        outcome.average_live = live.average()
        outcome.live = outcome.live or live.most()
    if status not in recipe.good_ends:
        raise WorkloadError(f"{recipe.name} ended with {status}; {server.last_words()}")
    if recipe.result and not outcome.result:
        raise WorkloadError(f"{recipe.name} did not say its result; {server.last_words()}")
    return outcome


def _live_watch(server: Server, options: Options) -> LiveWatch | nullcontext[None]:
    return LiveWatch(lambda: program_pid(server.process.pid)) if options.live else nullcontext()


def _serve(recipe: Recipe, session: Session, server: Server, options: Options) -> None:
    server.wait_until(lambda: recipe.ready(session), _START, recipe.name)
    recipe.load(session)
    session.say("the load has dropped")
    time.sleep(options.settle)


class _Watch(Periodic):
    """Samples the program's memory ten times a second while it runs.

    A launcher that stays behind the program is left out: before it started it, and after it ended.
    Without one (not `under`), a child that ends was the program's own.
    """

    def __init__(
        self,
        server: Server,
        result: str,
        outcome: Outcome,
        start: float,
        group: MemoryGroup | None,
        under: bool,
    ) -> None:
        super().__init__(0.1)
        self._server, self._process, self._result = server, server.process, result
        self._outcome, self._start = outcome, start
        self._group, self._under = group, under
        self._page_cache = 0
        self._has_child = False

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._note_result()
        out = self._outcome
        if self._group and out.charges:
            seen = max(charge for _, charge in out.charges)
            out.peak_charge = peak_charge(self._group, seen, self._page_cache)

    def _look(self) -> bool:
        with suppress(OSError, IndexError, ChargeError):  # between two programs, or gone
            pid = program_pid(self._process.pid)
            memory = procmem.read_memory(pid)
            used = procmem.cpu_seconds(pid)
            if memory.rss and self._is_program(pid):
                self._note(memory, used)
                self._note_charge()
        self._note_result()
        return True

    def _is_program(self, pid: int) -> bool:
        if not self._under:
            return True
        is_child = pid != self._process.pid
        if is_child and not self._has_child:
            self._has_child = self._outcome.launched = True
            self._outcome.peak_rss = 0
            self._outcome.series.clear()
            self._outcome.charges.clear()
        return is_child or not self._has_child

    def _note(self, memory: procmem.Memory, used: float) -> None:
        out = self._outcome
        out.rss, out.huge, out.anonymous = memory.rss, memory.anon_huge_pages, memory.anonymous
        out.peak_rss = max(out.peak_rss, memory.rss)
        out.cpu = used
        out.series.append((round(time.monotonic() - self._start, 2), memory.rss))

    def _note_charge(self) -> None:
        if self._group is None:
            return
        found = self._group.read()
        self._page_cache = found.page_cache
        self._outcome.charge = found.charge
        self._outcome.charges.append((round(time.monotonic() - self._start, 2), found.charge))

    def _note_result(self) -> None:
        if not self._result or self._outcome.result:
            return
        if found := re.search(self._result, self._server.output(), re.MULTILINE):
            self._outcome.result = found[0]
            self._outcome.result_at = time.monotonic() - self._start


def raise_file_limit() -> None:
    """Both ends of 5,000 connections are open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        limit = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))

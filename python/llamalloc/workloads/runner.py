# SPDX-License-Identifier: Apache-2.0
"""Runs one recipe under one launcher, and measures its program.

prepare -> start -> (server: ready -> load -> settle -> stop) -> end
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from llamalloc import procmem
from llamalloc.demo.redis import free_port
from llamalloc.workloads import launcher
from llamalloc.workloads.recipe import Recipe, Session, WorkloadError

_START = 120.0  # seconds that a server may take to start, under a tracer too
_STOP = 120.0
_FILES = 20_000  # descriptors: two ends of 5,000 connections, with room


@dataclass(frozen=True)
class Options:
    """How to run: words before the program, a library to preload, the load's size."""

    under: str = ""
    preload: str = ""
    scale: float = 1.0
    seed: int = 1
    settle: float = 2.0
    output: Path | None = None  # of the program; None: a file that is shown if it fails


@dataclass
class Outcome:
    """Seconds and bytes. `rss`: of a server after its load and `settle`; else the last seen."""

    name: str
    seconds: float = 0.0
    cpu: float = 0.0
    peak_rss: int = 0
    rss: int = 0
    huge: int = 0
    series: list[tuple[float, int]] = field(default_factory=list)


def run(recipe: Recipe, options: Options, say: Callable[[str], None]) -> Outcome:
    """Runs it to its end. Raises WorkloadError: a lack, a crash, a wrong exit code."""
    check(recipe)
    prefix = launcher.under(options.under)
    environment = launcher.with_preload(launcher.clean_environment(), options.preload)
    _raise_file_limit()
    with tempfile.TemporaryDirectory(prefix=f"llamalloc-{recipe.name}-") as folder:
        session = Session(Path(folder), free_port(), options.scale, options.seed, say)
        say("preparing")
        recipe.prepare(session)
        output = options.output or Path(folder) / "output"
        say("running" + (f" under {options.under}" if prefix else ""))
        with output.open("wb") as out:
            process = subprocess.Popen(
                [*prefix, *recipe.command(session)],
                env={**environment, **recipe.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=None if prefix else subprocess.STDOUT,
            )
        return _attend(recipe, session, process, options, output)


def check(recipe: Recipe) -> None:
    """Raises WorkloadError where a program of the recipe is not installed."""
    if missing := recipe.missing():
        raise WorkloadError(
            f"{recipe.name}: {', '.join(missing)} not found; install: "
            + (recipe.install or f"apt-get install {' '.join(recipe.packages)}")
        )


def _attend(
    recipe: Recipe, session: Session, process: subprocess.Popen, options: Options, output: Path
) -> Outcome:
    outcome, start = Outcome(recipe.name), time.monotonic()
    try:
        with _Watch(process, outcome, start):
            if recipe.is_server():
                _serve(recipe, session, process, options)
            status = _wait(process, None if not recipe.is_server() else _STOP)
    except BaseException as error:
        _end(process)
        if isinstance(error, OSError):
            raise WorkloadError(f"{recipe.name}: {error}; {_last_words(output)}") from error
        raise
    outcome.seconds = time.monotonic() - start
    if status not in recipe.good_ends:
        raise WorkloadError(f"{recipe.name} ended with {status}; {_last_words(output)}")
    return outcome


def _serve(recipe: Recipe, session: Session, process: subprocess.Popen, options: Options) -> None:
    deadline = time.monotonic() + _START
    while not recipe.ready(session):
        if process.poll() is not None:
            raise WorkloadError(f"{recipe.name} ended with {process.returncode} at its start")
        if time.monotonic() > deadline:
            raise WorkloadError(f"{recipe.name} takes no requests after {_START:.0f} s")
        time.sleep(0.05)
    recipe.load(session)
    session.say("the load has dropped")
    time.sleep(options.settle)
    process.send_signal(signal.SIGTERM)


def _wait(process: subprocess.Popen, patience: float | None) -> int:
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        raise WorkloadError(f"it did not end within {patience:.0f} s of SIGTERM") from None


def _end(process: subprocess.Popen) -> None:
    """Ends it and what a launcher started, whatever state they are in."""
    pid = program_pid(process.pid)
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def program_pid(pid: int) -> int:
    """The program behind a launcher: first children, as far down as there are any."""
    while children := procmem.read_text(f"/proc/{pid}/task/{pid}/children").split():
        pid = int(children[0])
    return pid


class _Watch:
    """Samples the program's memory ten times a second while it runs.

    A launcher that stays behind the program is left out: before it started it, and after it ended.
    """

    def __init__(self, process: subprocess.Popen, outcome: Outcome, start: float) -> None:
        self._process, self._outcome, self._start = process, outcome, start
        self._has_child = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(0.1):
            try:
                pid = program_pid(self._process.pid)
                memory = procmem.read_memory(pid)
                used = procmem.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
            except (OSError, IndexError):
                continue  # between two programs, or gone
            if memory.rss and self._is_program(pid):
                self._note(memory, used)

    def _is_program(self, pid: int) -> bool:
        is_child = pid != self._process.pid
        if is_child and not self._has_child:
            self._has_child = True
            self._outcome.peak_rss = 0
            self._outcome.series.clear()
        return is_child or not self._has_child

    def _note(self, memory: procmem.Memory, stat: list[str]) -> None:
        out = self._outcome
        out.rss, out.huge = memory.rss, memory.anon_huge_pages
        out.peak_rss = max(out.peak_rss, memory.rss)
        out.cpu = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        out.series.append((round(time.monotonic() - self._start, 2), memory.rss))


def _last_words(output: Path) -> str:
    lines = output.read_text(errors="replace").splitlines() if output.exists() else []
    return "it said: " + (" / ".join(lines[-3:]) or "nothing")


def _raise_file_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        limit = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))

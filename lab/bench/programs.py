# SPDX-License-Identifier: Apache-2.0
"""Real programs end to end: a fixed piece of work, its time, and its memory: charge and RSS."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab import redis_benchmark
from lab.live_watch import LiveWatch
from lab.places import BENCH_INPUTS as INPUTS
from lab.places import ROOT
from lab.redis import RedisServer
from lab.redis_benchmark import Workload
from llamalloc.running import procmem
from llamalloc.running.memory_group import MemoryGroup, entered
from llamalloc.running.memory_watch import MemoryWatch
from llamalloc.running.server import ServerError, program_pid

MOST_LIVE = "most_live"  # a figure: bytes, where they were counted
_AT_THE_END = ("charge", "rss")  # of a program that ends by itself it is chance what was seen last


class ProgramError(RuntimeError):
    """A program is missing or failed; the message says which, and what to do."""


@dataclass(frozen=True)
class Program:
    """A row. `command` runs in the root of the checkout; Redis, a server, has its own way."""

    name: str
    title: str
    package: str
    command: tuple[str, ...]
    quick: tuple[str, ...] = ()  # its arguments of a quick run, instead of the last of `command`
    metric: str = "cpu_s"
    unit: str = "s"
    higher: bool = False


CLANG = ("clang++-19", "-std=c++20", "-O1", "-I.", "-Isrc", "-Iinclude", "-w", "-c", "-o")
PROGRAMS = (
    Program("redis", "redis-server, four tests of redis-benchmark", "redis-server redis-tools",
            ("redis-server",), metric="requests_per_second", unit="/s", higher=True),
    Program("clang", "clang++ -O1 of src/heap/heap_test.cc", "clang-19",
            (*CLANG, "/dev/null", "src/heap/heap_test.cc"), ("src/base/options.cc",)),
    Program("z3", "z3 on a bit-vector multiplication", "z3",
            ("z3", "-T:300", str(INPUTS / "multiply.smt2")), (str(INPUTS / "small.smt2"),)),
    Program("sqlite3", "sqlite3, inserts and sorts in memory", "sqlite3",
            ("sqlite3", ":memory:", "-init", str(INPUTS / "rows.sql"), ".quit")),
    Program("python3", "python3, strings, lists and dictionaries", "python3",
            ("/usr/bin/python3", "-S", "-I", str(INPUTS / "objects.py"), "10"), ("1",)),
)  # fmt: skip

# Runs its arguments and says what they cost. A process of its own, and a small one: a child's peak
# of memory begins at its parent's.
_TIMED = """
import json, os, sys, time
begin = time.monotonic()
null = os.open(os.devnull, os.O_RDWR)
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], dict(os.environ),
    file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)])
_, status, use = os.wait4(child, 0)
print(json.dumps({"wall_s": time.monotonic() - begin, "cpu_s": use.ru_utime + use.ru_stime,
    "peak_rss": use.ru_maxrss << 10, "status": os.waitstatus_to_exitcode(status)}))
"""


def run(name: str, environment: dict[str, str], quick: bool, ours: bool) -> dict[str, float]:
    """One run; figures by name. `ours`: it runs on llamalloc, which counts what is live. Raises
    ProgramError."""
    program = next(p for p in PROGRAMS if p.name == name)
    if shutil.which(program.command[0]) is None:
        raise ProgramError(f"{program.command[0]} is missing: apt-get install {program.package}")
    if name == "redis":
        return _redis(environment, 5_000 if quick else 100_000)
    command = program.command
    if quick and program.quick:
        command = (*command[: -len(program.quick)], *program.quick)
    return _timed(command, environment, ours)


def _timed(
    command: tuple[str, ...], environment: dict[str, str], ours: bool = False
) -> dict[str, float]:
    with MemoryGroup.made("bench") as group:
        words, shared = entered(group, command, environment | {"PYTHONMALLOC": "malloc"})
        with subprocess.Popen(
            ["/usr/bin/python3", "-I", "-S", "-c", _TIMED, *words],
            cwd=ROOT, env=shared, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as timer:  # fmt: skip
            out, err, memory = _watched(timer, group, ours)
    said = err.strip().splitlines() or [""]
    if timer.returncode != 0:
        raise ProgramError(f"cannot run {command[0]}: {said[-1]}")
    figures = json.loads(out.splitlines()[-1])
    if (status := figures.pop("status")) != 0:
        raise ProgramError(f"{command[0]} ended with {status}: {said[-1]}")
    kept = {name: value for name, value in memory.items() if name not in _AT_THE_END}
    # The kernel's mark may miss some pages of each processor.
    figures["peak_rss"] = max(figures["peak_rss"], kept.get("peak_rss", 0))
    return kept | figures


def _watched(
    timer: subprocess.Popen, group: MemoryGroup | None, ours: bool
) -> tuple[str, str, dict[str, float]]:
    """What it printed, and its program's memory. Raises TimeoutExpired."""
    program = partial(_program_of, timer.pid)
    try:
        with MemoryWatch(program, group) as watch, _counting(program, ours) as live:
            out, err = timer.communicate(timeout=600)
    except BaseException:
        timer.kill()
        raise
    return out, err, _memory(watch, live.most() if live else 0)


def _program_of(timer: int) -> int:
    """Raises ProcessLookupError before it has started it, and after it has ended."""
    if (found := program_pid(timer)) == timer:
        raise ProcessLookupError
    return found


def _counting(program: Callable[[], int], ours: bool) -> LiveWatch | nullcontext[None]:
    return LiveWatch(program) if ours else nullcontext()


def _memory(watch: MemoryWatch, live: int) -> dict[str, float]:
    """Its figures, and what was live. 0 is left out: not known, or it ended before it was seen."""
    figures = watch.memory(live).figures() | {MOST_LIVE: live}
    return {name: value for name, value in figures.items() if value}


def _redis(environment: dict[str, str], operations: int) -> dict[str, float]:
    """Through a Unix socket; Redis switches huge pages off for itself, as it does by default."""
    load = Workload(clients=50, operations=operations)
    with tempfile.TemporaryDirectory(prefix="llamalloc-bench-") as folder:
        address = Path(folder) / "redis.sock"
        options = ("--disable-thp", "yes")
        try:
            with MemoryGroup.made("bench") as group:
                words, shared = entered(group, [], environment)
                server = RedisServer(words, shared, Path(folder), "redis", address, options)
                rates, used = _loaded(server, load, address, group)
        except (ServerError, redis_benchmark.BenchmarkError) as error:
            raise ProgramError(str(error)) from error
    inverse = sum(1 / rate.requests_per_second for rate in rates)
    return {"requests_per_second": len(rates) / inverse} | used


def _loaded(
    server: RedisServer, load: Workload, address: Path, group: MemoryGroup | None
) -> tuple[list[redis_benchmark.Rate], dict[str, float]]:
    try:
        with MemoryWatch(server.pid, group) as watch:
            rates = redis_benchmark.run(load, address, time.monotonic, lambda text: None)
        live = int(server.client.info()["used_memory_peak"])
        return rates, _memory(watch, live) | {"cpu_s": procmem.cpu_seconds(server.pid)}
    finally:
        server.kill(patience=5)

# SPDX-License-Identifier: Apache-2.0
"""Real programs end to end: a fixed piece of work, its time, and its peak of resident memory."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from llamalloc.bench.places import INPUTS, ROOT


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
preload = sys.argv[1]
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], dict(os.environ, LD_PRELOAD=preload),
    file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, null, 1)])
_, status, use = os.wait4(child, 0)
print(json.dumps({"wall_s": time.monotonic() - begin, "cpu_s": use.ru_utime + use.ru_stime,
    "peak_rss": use.ru_maxrss << 10, "status": os.waitstatus_to_exitcode(status)}))
"""
READY_SECONDS = 10


def run(name: str, environment: dict[str, str], quick: bool) -> dict[str, float]:
    """One run; figures by name. Raises ProgramError."""
    program = next(p for p in PROGRAMS if p.name == name)
    if shutil.which(program.command[0]) is None:
        raise ProgramError(f"{program.command[0]} is missing: apt-get install {program.package}")
    if name == "redis":
        return _redis(environment, 5_000 if quick else 100_000)
    command = program.command
    if quick and program.quick:
        command = (*command[: -len(program.quick)], *program.quick)
    return _timed(command, environment)


def _timed(command: tuple[str, ...], environment: dict[str, str]) -> dict[str, float]:
    clean = {k: v for k, v in environment.items() if k != "LD_PRELOAD"} | {"PYTHONMALLOC": "malloc"}
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", _TIMED, environment["LD_PRELOAD"], *command],
        cwd=ROOT, env=clean, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    said = done.stderr.strip().splitlines() or [""]
    if done.returncode != 0:
        raise ProgramError(f"cannot run {command[0]}: {said[-1]}")
    figures = json.loads(done.stdout.splitlines()[-1])
    if (status := figures.pop("status")) != 0:
        raise ProgramError(f"{command[0]} ended with {status}: {said[-1]}")
    return figures


def _redis(environment: dict[str, str], operations: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="llamalloc-bench-") as folder:
        socket = Path(folder) / "redis.sock"
        options = ("--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no")
        with subprocess.Popen(
            ["redis-server", *options, "--dir", folder],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as server:  # fmt: skip
            try:
                _await(socket, server)
                return _load(socket, operations) | _used(server.pid)
            finally:
                server.terminate()


def _await(socket: Path, server: subprocess.Popen) -> None:
    end = time.monotonic() + READY_SECONDS
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > end:
            raise ProgramError(f"redis-server did not start (status {server.poll()})")
        time.sleep(0.02)


def _load(socket: Path, operations: int) -> dict[str, float]:
    tests = "set,get,lpush,lrange_100"
    command = ["redis-benchmark", "-s", socket, "--csv", "-n", str(operations), "-d", "1000"]
    done = subprocess.run([*command, "-t", tests], capture_output=True, text=True, check=False)
    rates = [float(cells[1]) for cells in list(csv.reader(done.stdout.splitlines()))[1:]]
    if done.returncode != 0 or not rates:
        raise ProgramError(f"redis-benchmark ended with {done.returncode}: {done.stderr.strip()}")
    return {"requests_per_second": len(rates) / sum(1 / rate for rate in rates)}


def _used(pid: int) -> dict[str, float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # utime and stime: fields 14 and 15 of proc(5)
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return {"cpu_s": ticks / os.sysconf("SC_CLK_TCK"), "peak_rss": int(peak) << 10}

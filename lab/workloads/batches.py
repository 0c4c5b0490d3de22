# SPDX-License-Identifier: Apache-2.0
"""Redis while batches of keys come and go: figure 9 of ISMM 2021 (adaptive subrelease).

    python -m lab.workloads.batches [--only static,auto,glibc] [--runs 3]

200,000 keys of 1 KiB stay. Ten times, 200,000 more are set over 1,000 connections, stay for 5 s,
and are deleted. Each row is another release plan of llamalloc without a model, or a peer. `static`
is the baseline: it breaks what its rate allows, and expects no demand. Two minutes a row.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lab import allocators, redis_clients
from lab.command import exit_status
from lab.launcher import LLAMALLOC, clean_environment
from lab.redis import RedisServer
from lab.workloads import batches_table
from lab.workloads.batches_table import BASELINE, Run
from lab.workloads.compared import count
from lab.workloads.heap_watch import HeapWatch, work_of
from lab.workloads.recipe import WorkloadError
from lab.workloads.runner import raise_file_limit
from llamalloc.running import control, procmem
from llamalloc.running.memory_group import MemoryGroup, entered
from llamalloc.running.memory_watch import MemoryWatch
from llamalloc.running.server import ServerError

RATE = "release_rate:10MiB"  # the paper's
PLANS = {
    BASELINE: f"release_forecast:none,{RATE}",
    "peak": f"release_forecast:peak,{RATE}",
    "trend": f"release_forecast:trend,{RATE}",
    "auto": "",  # what a user gets
}
PEERS = ("glibc", "jemalloc")
FAULTS = (WorkloadError, ServerError, control.ControlError, OSError)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """A plain call is the load that the documents quote."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.workloads.batches",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rows = ",".join((*PLANS, *PEERS))
    parser.add_argument("--only", default=rows, help=f"rows, of {rows}; default: all")
    parser.add_argument("--runs", type=count, default=1, help="the median is shown (1)")
    parser.add_argument("--keys", type=int, default=200_000, help="of a batch (200000)")
    parser.add_argument("--value", type=int, default=1024, help="bytes of a value (1024)")
    parser.add_argument("--connections", type=int, default=1000, help="at once (1000)")
    parser.add_argument("--batches", type=int, default=10, help="how many come and go (10)")
    parser.add_argument("--wait", type=float, default=5.0, help="seconds that a batch stays (5)")
    parser.add_argument("--conf", default="", help="more options of llamalloc: key:value,...")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prints a table; 0, or 2 if something could not run."""
    options = arguments(argv)
    return exit_status("batches", lambda: _run(options), FAULTS)


def _run(options: argparse.Namespace) -> int:
    names = [name for name in options.only.split(",") if name]
    if unknown := sorted(set(names) - {*PLANS, *PEERS}):
        raise WorkloadError(f"no row {', '.join(unknown)}; there are {', '.join((*PLANS, *PEERS))}")
    raise_file_limit()
    start, found = time.monotonic(), {name: [] for name in names}
    for turn in range(1, options.runs + 1):
        for name in names:
            words = f"{name}, run {turn} of {options.runs}"
            with tempfile.TemporaryDirectory(prefix="llamalloc-") as folder:
                say = _Teller(start, words)
                found[name].append(_measured(name, Load(options), options.conf, Path(folder), say))
    batches_table.show(found)
    batches_table.write(options.json, found)
    return 0


class _Teller:
    """A line of progress on stderr."""

    def __init__(self, start: float, row: str) -> None:
        self._start, self._row = start, row

    def __call__(self, text: str) -> None:
        seconds = time.monotonic() - self._start
        print(f"[{seconds:4.0f} s] batches: {self._row}: {text}", file=sys.stderr, flush=True)


@dataclass
class Load:
    """The load of one run. `seconds`: in which requests were under way; `count`: of them."""

    options: argparse.Namespace
    seconds: float = 0.0
    count: int = 0

    def keys(self, batch: int) -> range:
        """Batch 0 stays."""
        return range(batch * self.options.keys, (batch + 1) * self.options.keys)

    def set(self, port: int, batch: int) -> None:
        self._send(port, redis_clients.sets(self.keys(batch), self.options.value))

    def delete(self, port: int, batch: int) -> None:
        self._send(port, redis_clients.deletes(self.keys(batch)))

    def _send(self, port: int, requests: Iterable[bytes]) -> None:
        self.seconds += redis_clients.send(port, self.options.connections, iter(requests))
        self.count += self.options.keys


def _launcher(name: str, conf: str, socket: Path) -> tuple[list[str], dict[str, str]]:
    """(words before redis-server, environment) of a row. Raises WorkloadError."""
    if name in PLANS:
        whole = ",".join(text for text in (PLANS[name], conf) if text)
        chosen = ["--conf", whole] if whole else []
        return [*LLAMALLOC, "run", *chosen, "--control", str(socket), "--"], clean_environment()
    peer = allocators.find(name)
    if peer is None or not peer.is_installed():
        raise WorkloadError(f"{name} is not installed; scripts/setup.sh packages demo")
    return [], clean_environment() | {"LD_PRELOAD": peer.soname}


def _measured(name: str, load: Load, conf: str, folder: Path, say: _Teller) -> Run:
    socket = folder / "control"
    with MemoryGroup.made("batches") as group:
        server = RedisServer(*entered(group, *_launcher(name, conf, socket)), folder, name)
        try:
            _check_mapped(server.pid, name)
            run = _loaded(server, load, group, say)
            run.statistics = control.stats(socket)["stats"] if name in PLANS else None
        except BaseException:
            server.kill()
            raise
        faults = server.stop()
    if faults:
        raise WorkloadError(f"{name}: {'; '.join(faults)}")
    return run


def _check_mapped(pid: int, name: str) -> None:
    library = "libllamalloc" if name in PLANS else allocators.find(name).soname
    if not any(library in Path(path).name for path in procmem.mapped_files(pid)):
        raise WorkloadError(f"{library} is not mapped into redis-server")


def _loaded(server: RedisServer, load: Load, group: MemoryGroup | None, say: _Teller) -> Run:
    say("setting the keys that stay")
    load.set(server.address, 0)
    used = [int(server.client.info()["used_memory"])]
    load.seconds, load.count = 0.0, 0
    before = work_of(server.pid)
    with HeapWatch(server.pid) as heap, MemoryWatch(server.pid, group) as watch:
        for batch in range(1, load.options.batches + 1):
            load.set(server.address, batch)
            used.append(int(server.client.info()["used_memory"]))
            time.sleep(load.options.wait)
            load.delete(server.address, batch)
            say(f"batch {batch} of {load.options.batches}, {load.count / load.seconds:,.0f}/s")
    after = work_of(server.pid)
    return Run(
        rate=load.count / load.seconds,
        cpu=(after.cpu - before.cpu) / load.count,
        faults=after.faults - before.faults,
        coverage=heap.coverage(),
        memory=watch.memory(max(used)),
    )


if __name__ == "__main__":
    raise SystemExit(main())

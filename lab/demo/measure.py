# SPDX-License-Identifier: Apache-2.0
"""One measured run: start the server, load it, wait until the load has dropped, read the memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import redis_benchmark as benchmark
from lab.demo.allocators import Row
from lab.demo.plan import RECORD_INTERVAL
from lab.demo.results import Run
from lab.demo.sampler import Sampler, Series
from lab.launcher import LLAMALLOC, clean_environment, with_preload
from lab.redis import RedisServer
from lab.redis_benchmark import Workload
from llamalloc.running import control, procmem
from llamalloc.running.charge import Charge, ChargeError
from llamalloc.running.memory_group import MemoryGroup, entered
from llamalloc.running.memory_watch import peak_charge
from llamalloc.running.server import ServerError

_DYING = 2.0  # seconds in which a server that broke its connections ends


def state_of(out: Path) -> Path:
    """Where the rows that learn by themselves keep what they learned."""
    return out / "redis.learned"


def prepare_state(row: Row, out: Path) -> None:
    """A first run knows nothing, a later one what those before kept. Raises ServerError."""
    if row.learns == 1:
        state_of(out).unlink(missing_ok=True)
    elif row.learns > 1 and not state_of(out).exists():
        raise ServerError(f"{state_of(out)}: no such file: take --only learns-1,{row.name}")


def launcher(row: Row, out: Path, socket: Path) -> tuple[list[str], dict[str, str]]:
    """(words before `redis-server`, environment) of one row, with its files in `out`."""
    env = clean_environment()
    if row.ours:
        chosen = ["--model", str(out / "redis.model")] if row.learned else []
        chosen += ["--learn", str(state_of(out))] if row.learns else []
        return [*LLAMALLOC, "run", *chosen, "--control", str(socket), "--"], env
    return [], with_preload(env, row.preload)


def recorder(profile: Path) -> tuple[list[str], dict[str, str]]:
    """(words, environment) that record a server's lifetimes into `profile`."""
    words = [*LLAMALLOC, "record", "-o", str(profile), "--interval", RECORD_INTERVAL, "--"]
    return words, clean_environment()


def measured(row: Row, workload: Workload, out: Path, say: Callable[[str], None]) -> Run:
    """Runs the workload on one allocator. Raises ServerError or BenchmarkError."""
    with tempfile.TemporaryDirectory(prefix="llamalloc-") as private:
        socket = Path(private) / "control"
        prefix, env = launcher(row, out, socket)
        with MemoryGroup.made("demo") as group:
            words, shared = entered(group, prefix, env)
            server = RedisServer(words, shared, out / "logs", row.name)
            return _guarded(server, row, workload, socket if row.ours else None, say, group)


def recorded(
    row: Row, workload: Workload, profile: Path, folder: Path, say: Callable[[str], None]
) -> Run:
    """The same under `llamalloc record`; `row` names the run."""
    prefix, env = recorder(profile)
    return _guarded(RedisServer(prefix, env, folder, "recorded"), row, workload, None, say)


def _guarded(
    server: RedisServer,
    row: Row,
    workload: Workload,
    socket: Path | None,
    say: Callable[[str], None],
    group: MemoryGroup | None = None,
) -> Run:
    try:
        _check_mapped(server, row)
        run = _load(server, row, workload, say, group)
        _check_in_charge(server, row)
        run.statistics = _statistics(socket)
    except (OSError, ChargeError, benchmark.BenchmarkError) as error:
        died = server.wait(_DYING) is not None
        server.kill()
        if not died:
            raise
        raise ServerError(f"redis-server died ({error}): {server.last_words()}") from error
    except BaseException:
        server.kill()
        raise
    run.faults = server.stop()
    return run


def _load(
    server: RedisServer,
    row: Row,
    workload: Workload,
    say: Callable[[str], None],
    group: MemoryGroup | None,
) -> Run:
    start = time.monotonic()

    def seconds() -> float:
        return time.monotonic() - start

    with Sampler(server.pid, server.address, seconds, group) as sampler:
        time.sleep(0.3)
        tests = benchmark.run(workload, server.address, seconds, say)
        dropped = seconds()
        time.sleep(workload.settle)
        final = procmem.read_memory(server.pid)
        charge = group.read() if group else None
        info = server.client.info()
    series = sampler.series
    return Run(
        allocator=row.name,
        title=row.title,
        rss=final.rss,
        anon_huge_pages=final.anon_huge_pages,
        used_memory=int(info["used_memory"]),
        dropped_at=dropped,
        tests=tests,
        series=series,
        peak_rss=max(series.rss, default=final.rss),
        anonymous=final.anonymous,
        charge=charge.charge if charge else None,
        peak_charge=_peak_charge(group, series, charge) if group and charge else None,
        peak_live=int(info["used_memory_peak"]),
    )


def _peak_charge(group: MemoryGroup, series: Series, last: Charge) -> int:
    return peak_charge(group, max(series.charge, default=last.charge), last.page_cache)


def _check_mapped(server: RedisServer, row: Row) -> None:
    """Raises ServerError unless the row's library is in the server's address space."""
    if not any(row.mapped in Path(path).name for path in procmem.mapped_files(server.pid)):
        raise ServerError(f"{row.title}: {row.mapped} is not mapped into redis-server")


def _check_in_charge(server: RedisServer, row: Row) -> None:
    """Raises ServerError if jemalloc still serves malloc where it should not, or the reverse.

    Redis reports what the library with `mallctl` handed out (allocator_allocated) beside what it
    holds itself. That is its own jemalloc, or ours; the others have none.
    """
    info = server.client.info()
    told = int(info.get("allocator_allocated", 0)) > int(info["used_memory"]) // 2
    if told != (row.ours or row.name == "jemalloc"):
        raise ServerError(f"{row.title}: another allocator serves malloc in redis-server")


def _statistics(socket: Path | None) -> dict[str, Any] | None:
    return control.stats(socket) if socket else None

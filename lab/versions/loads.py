# SPDX-License-Identifier: Apache-2.0
"""The load of each program: the same for all its builds. A seed changes its random choices."""

from __future__ import annotations

import time
from pathlib import Path

from lab import redis
from lab import redis_benchmark as benchmark
from lab.redis_benchmark import Workload
from lab.workloads.programs.redis_mixed import RedisMixed
from lab.workloads.recipe import Recipe, Session, WorkloadError

# Every data type of redis-benchmark; ASPLOS 2020 uses four of these tests.
TESTS = "set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,lrange_300,mset"
_CLIENTS, _OPERATIONS = 1_000, 10_000


class RedisLoad(RedisMixed):
    """redis-benchmark over all data types, then waves of values of all sizes that expire."""

    name = "redis-versions"
    programs = ("redis-benchmark", "stdbuf")
    packages = ("redis-tools",)

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    def prepare(self, session: Session) -> None:
        """The demo's settings without one that Redis 6.0 does not know."""
        lines = redis.SERVER_CONF.read_text().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("disable-thp")]
        (session.folder / "server.conf").write_text("".join(kept))

    def command(self, session: Session) -> list[str]:
        """The demo's server, of another build."""
        demo = redis.command(session.port, session.folder)
        return [str(self._binary), str(session.folder / "server.conf"), *demo[2:]]

    def load(self, session: Session) -> None:
        """Two phases in one process."""
        workload = Workload(
            clients=session.scaled(_CLIENTS, 50),
            operations=session.scaled(_OPERATIONS, 500),
            tests=TESTS,
        )
        start = time.monotonic()
        try:
            benchmark.run(workload, session.port, lambda: time.monotonic() - start, session.say)
        except benchmark.BenchmarkError as error:
            raise WorkloadError(str(error)) from error
        super().load(session)


class RocksDbLoad(Recipe):
    """workloads/rocksdb: fill, read, scan, delete and compact, three times."""

    name = "rocksdb-versions"

    def __init__(self, binary: Path) -> None:
        self._binary = binary

    def command(self, session: Session) -> list[str]:
        """A database in the run's own folder."""
        keys = session.scaled(100_000, 1_000)
        return [str(self._binary), str(session.folder / "db"), str(keys), str(session.seed)]


LOADS = {"redis": RedisLoad, "rocksdb": RocksDbLoad}

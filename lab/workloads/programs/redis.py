# SPDX-License-Identifier: Apache-2.0
"""Redis under the demo's load: ASPLOS 2020, section 7."""

from __future__ import annotations

import time

from lab import redis
from lab import redis_benchmark as benchmark
from lab.redis_benchmark import PAPER, Workload
from lab.workloads.recipe import Recipe, Session, WorkloadError


class RedisServer(Recipe):
    """What every load on redis-server shares."""

    packages = ("redis-server", "redis-tools")
    programs = ("redis-server", "redis-benchmark", "stdbuf")

    def command(self, session: Session) -> list[str]:
        """The demo's server."""
        return redis.command(session.port, session.folder)

    def ready(self, session: Session) -> bool:
        """Whether it accepts connections."""
        return redis.accepts(session.port)

    def most_live(self, session: Session) -> int:
        """Its own used_memory_peak."""
        return redis.most_live(session.port)


class Redis(RedisServer):
    """redis-benchmark with 5,000 connections."""

    name = "redis"
    title = "redis-server under the demo's load: 5,000 clients, set get lpush lrange_100"
    memory = "200 MB of values that stay, then 400 to 700 MB of replies that die soon"
    seconds = 25

    def load(self, session: Session) -> None:
        """The demo's benchmark, smaller by the scale."""
        workload = Workload(
            clients=session.scaled(PAPER.clients, 50),
            operations=session.scaled(PAPER.operations, 500),
        )
        start = time.monotonic()
        try:
            benchmark.run(workload, session.port, lambda: time.monotonic() - start, session.say)
        except benchmark.BenchmarkError as error:
            raise WorkloadError(str(error)) from error

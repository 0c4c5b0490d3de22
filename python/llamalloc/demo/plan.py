# SPDX-License-Identifier: Apache-2.0
"""What the demo runs: the workload of ASPLOS 2020, section 7 (Redis), and where its files go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SERVER_CONF = ROOT / "workloads" / "redis" / "server.conf"
RECORD_INTERVAL = "64KiB"


@dataclass(frozen=True)
class Workload:
    """One redis-benchmark call. `value` in bytes, `settle` in seconds after the last connection."""

    clients: int = 5_000
    operations: int = 100_000
    value: int = 1_000
    tests: str = "set,get,lpush,lrange_100"
    settle: float = 6.0


PAPER = Workload()
QUICK = Workload(clients=200, operations=5_000, settle=1.0)

# SPDX-License-Identifier: Apache-2.0
"""What the demo runs: the workload of ASPLOS 2020, section 7 (Redis), or a small one."""

from __future__ import annotations

from lab.redis_benchmark import Workload

RECORD_INTERVAL = "64KiB"
QUICK = Workload(clients=200, operations=5_000, settle=1.0)

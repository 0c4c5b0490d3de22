# SPDX-License-Identifier: Apache-2.0
"""Where the programs, peers and inputs are that the lab uses."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "release"
LIBRARY = BUILD / "libllamalloc.so"
MALLOC_BENCH = BUILD / "bench" / "malloc_bench"
COUNT_CALLS = BUILD / "bench" / "count_calls"
PEERS_OUT = ROOT / "build" / "peers"
BENCH_INPUTS = ROOT / "bench" / "programs"
WORKLOADS = ROOT / "workloads"

# SPDX-License-Identifier: Apache-2.0
"""Where the benchmark's programs, peers and inputs are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "build" / "release" / "bench"
MALLOC_BENCH = PROGRAMS / "malloc_bench"
COUNT_CALLS = PROGRAMS / "count_calls"
LIBRARY = ROOT / "build" / "release" / "libllamalloc.so"
PEERS_OUT = ROOT / "build" / "peers"
INPUTS = ROOT / "bench" / "programs"

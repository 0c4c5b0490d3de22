# SPDX-License-Identifier: Apache-2.0
"""Results as llamalloc-simulate prints them, small enough to sum by hand."""

from typing import Any

from llamalloc.formats.contracts import lifetime_classes
from llamalloc.running.simulation import LOSSES


def moment(time_ns: int, kind: str, live: int, huge: int) -> dict[str, Any]:
    """All that is not live is in free blocks."""
    losses = dict.fromkeys(LOSSES, 0) | {"free_blocks": huge - live}
    found = {"time_ns": time_ns, "kind": kind, "live": live, "huge": huge, "small": live + 4096}
    found |= {"resident": huge, "covered": huge} | losses
    if kind != "sample":
        pages = ["h" * 100 + "." * 156, "C" + "." * 255]
        found |= {"objects": 101, "outlivers": 1, "pinned": huge // 2, "pinned_pages": 1}
        found |= {"map_pages": len(pages), "map": pages}
    return found


def result(policy: str, predictor: str, *, error: float = 0.0, drop: bool = True) -> dict[str, Any]:
    """A run of 3 s whose live bytes go 1 MiB, 4 MiB, 1 MiB and that always holds 8 MiB."""
    mib = 1 << 20
    moments = [
        moment(10**9, "sample", mib, 8 * mib),
        moment(2 * 10**9, "sample", 4 * mib, 8 * mib),
        moment(2 * 10**9, "peak", 4 * mib, 8 * mib),
        moment(3 * 10**9, "sample", mib, 8 * mib),
        moment(3 * 10**9, "end", mib, 8 * mib),
    ]
    if drop:
        moments.insert(-1, moment(3 * 10**9, "drop", mib, 8 * mib))
    names = [row.name for row in lifetime_classes()]
    counts = [10] * 30 + [0] * 34
    return {
        "policy": policy,
        "predictor": predictor,
        "error": error,
        "seed": 1,
        "events_per_second": 7e6,
        "known_contexts": 2,
        "trace": {
            "file": "t.trace",
            "ended_in_order": True,
            "events": 700,
            "objects": 400,
            "frees": 300,
            "resizes": 0,
            "placements": 400,
            "contexts": 2,
            "threads": 1,
            "allocated_bytes": 1 << 24,
            "duration_ns": 3 * 10**9,
            "peak_time_ns": 2 * 10**9,
            "peak_live": 4 * mib,
            "drops": int(drop),
        },
        "totals": {
            "average": 4.0,
            "average_small": 1.001,
            "after_drops": 8.0 if drop else 0,
            "after_drops_small": 1.004,
            "worst_drop": 8.0 if drop else 0,
            "peak": 2.0,
            "coverage": 1.0,
            "peak_footprint": 8 * mib,
            "huge_pages_acquired": 4,
        },
        "classes": [
            {"name": name, "placements": 100, "outlived": int(name == "le_3s"), "bytes": 1 << 20}
            for name in names
        ],
        "lifetimes_log2_ns": counts,
        "never_freed": 100,
        "moments": moments,
    }

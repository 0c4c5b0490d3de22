# SPDX-License-Identifier: Apache-2.0
"""A statistics document per contracts/control_protocol.md, small enough to sum by hand."""

from typing import Any

from llamalloc.formats import contracts

MIB = 1 << 20


def document(hugepages: str = "always") -> dict[str, Any]:
    """Three pages: a full permanent one, and two transient ones that a few objects pin."""
    stats = {row.name: 0 for row in contracts.stats()}
    stats |= {"allocated": 2 * MIB, "predict_hits": 1000, "predict_nanos": 1_500_000}
    return {
        "version": 1,
        "pid": 7,
        "command": "redis-server",
        "seconds": 12.5,
        "model": "loaded",
        "hugepages": hugepages,
        "stats": stats,
        "predicted": {row.name: 0 for row in contracts.lifetime_classes()} | {"le_10ms": 4},
        "groups": [
            _group("permanent", 1, allocated=2 * MIB - 4096, free_slots=4096),
            _group("transient", 2, allocated=1280, free_slots=6912),
        ],
        "pages": [
            _page("permanent", 2 * MIB - 4096, [(1024, 2044, 2048)]),
            _page("transient", 1088, [(64, 1, 64), (1024, 1, 4)]),
            _page("transient", 192, [(64, 3, 64), (128, 0, 32)]),
        ],
    }


def _group(name: str, pages: int, allocated: int, free_slots: int) -> dict[str, Any]:
    free_blocks = pages * 2 * MIB - allocated - free_slots
    sizes = {"allocated": allocated, "free_slots": free_slots, "free_blocks": free_blocks}
    return {"group": name, "pages": pages, **sizes}


def _page(group: str, allocated: int, spans: list[tuple[int, int, int]]) -> dict[str, Any]:
    rows = [{"size": size, "objects": objects, "slots": slots} for size, objects, slots in spans]
    head = {"group": group, "promoted": False, "used_blocks": len(rows), "age": 1.5}
    return {**head, "allocated": allocated, "spans": rows}

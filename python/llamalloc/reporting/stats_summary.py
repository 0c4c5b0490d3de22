# SPDX-License-Identifier: Apache-2.0
"""The library's statistics summed up: where memory is, what pins it, what prediction did.

A huge page is pinned when it holds little: what its spans hold keeps 2 MiB from going back.
Source: contracts/control_protocol.md, contracts/stats.def.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llamalloc.formats import shape
from llamalloc.formats.shape import EACH, NUMBER, TEXT

HUGE_PAGE = 2 << 20
PINNED_BELOW = 0.25  # allocated share under which a page counts as pinned
TOP = 10


class StatisticsError(ValueError):
    """Not a statistics file; the message names the file, the cause and the cure."""


@dataclass(frozen=True)
class GroupRow:
    """One page group: its bytes, and `pinned`: pages with less than PINNED_BELOW in use. None: of
    a process whose counters alone could be read."""

    name: str
    pages: int
    allocated: int
    free_slots: int
    free_blocks: int | None
    pinned: int | None


@dataclass(frozen=True)
class PinRow:
    """Objects of one size that sit in pinned pages of one group."""

    group: str
    size: int
    objects: int
    pages: int


@dataclass(frozen=True)
class StatsSummary:
    """`occupancy`: group -> allocated share of each of its pages, ascending.

    `learning`: what is learned in process and where it is kept, `segregation`: whether objects are
    placed by it, each a sentence; empty: learning is off. `memory`: a sentence on what the process
    is charged for now; empty: it has ended. `peak`: counters at the moment when most was
    allocated, None if nobody looked.
    """

    file: str
    program: str
    pid: int
    seconds: float
    model: str
    hugepages: str
    counters: dict[str, float]
    predicted: dict[str, int]
    groups: list[GroupRow]
    pins: list[PinRow]
    occupancy: dict[str, list[float]]
    learning: str = ""
    segregation: str = ""
    memory: str = ""
    peak: dict[str, float] | None = None
    peak_seconds: float = 0.0

    def knows_pages(self) -> bool:
        """Whether each huge page was looked at."""
        return all(g.pinned is not None for g in self.groups)


def read(path: Path) -> dict[str, Any]:
    """The statistics in a file. Raises StatisticsError."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise StatisticsError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise StatisticsError(f"{path}: not JSON ({error}); {_CURE}") from error
    if not isinstance(document, dict) or document.get("version") != 1 or "stats" not in document:
        raise StatisticsError(f"{path}: JSON, but not llamalloc statistics of version 1; {_CURE}")
    if fault := shape.misfit(document, _SHAPE):
        raise StatisticsError(f"{path}: damaged: {fault}; {_CURE}")
    return document


# Of contracts/control_protocol.md, what is read here.
_GROUP = {"group": TEXT, "pages": NUMBER, "allocated": NUMBER, "free_slots": NUMBER}
_SPAN = {"size": NUMBER, "objects": NUMBER}
_SHAPE = {
    "pid?": NUMBER,
    "command?": TEXT,
    "seconds?": NUMBER,
    "model?": TEXT,
    "hugepages?": TEXT,
    "learning?": TEXT,
    "segregation?": TEXT,
    "stats": {EACH: NUMBER},
    "peak?": {"seconds": NUMBER, "stats": {EACH: NUMBER}},
    "predicted?": {EACH: NUMBER},
    "groups?": [_GROUP | {"free_blocks?": NUMBER}],
    "pages?": [{"group": TEXT, "allocated": NUMBER, "spans": [_SPAN]}],
}
_CURE = "write some with: llamalloc run --stats s.json -- ./server"


def summarise(document: dict[str, Any], file: str, memory: str = "") -> StatsSummary:
    """Sums up one statistics document; `memory` is of running/memory_now.py."""
    pages = document.get("pages", [])
    pinned = [p for p in pages if p["allocated"] < PINNED_BELOW * HUGE_PAGE]
    return StatsSummary(
        file=file,
        program=document.get("command", "?"),
        pid=document.get("pid", 0),
        seconds=document.get("seconds", 0.0),
        model=document.get("model", "none"),
        hugepages=document.get("hugepages", "unknown"),
        counters=document["stats"],
        predicted=document.get("predicted", {}),
        groups=_groups(document.get("groups", []), pinned if "pages" in document else None),
        pins=_pins(pinned),
        occupancy=_occupancy(pages),
        learning=_learning(document.get("learning", "off")),
        segregation=_sentence(document.get("segregation", "")),
        memory=memory,
        peak=document.get("peak", {}).get("stats"),
        peak_seconds=document.get("peak", {}).get("seconds", 0.0),
    )


def _learning(state: str) -> str:
    return "" if state == "off" else _sentence(f"learning is {state}")


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:].rstrip('.')}." if words else ""


def _groups(groups: list[dict[str, Any]], pinned: list[dict[str, Any]] | None) -> list[GroupRow]:
    by_group = None if pinned is None else Counter(page["group"] for page in pinned)
    return [
        GroupRow(
            name=g["group"],
            pages=g["pages"],
            allocated=g["allocated"],
            free_slots=g["free_slots"],
            free_blocks=g.get("free_blocks"),
            pinned=None if by_group is None else by_group[g["group"]],
        )
        for g in groups
    ]


def _pins(pinned: list[dict[str, Any]]) -> list[PinRow]:
    objects: Counter[tuple[str, int]] = Counter()
    pages: Counter[tuple[str, int]] = Counter()
    for page in pinned:
        holds = Counter({s["size"]: 0 for s in page["spans"] if s["objects"]})
        for span in page["spans"]:
            holds[span["size"]] += span["objects"]
        for size, count in holds.items():
            if count:
                objects[page["group"], size] += count
                pages[page["group"], size] += 1
    ranked = sorted(pages, key=lambda key: (-pages[key], key))[:TOP]
    return [PinRow(group, size, objects[group, size], pages[group, size]) for group, size in ranked]


def _occupancy(pages: list[dict[str, Any]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for page in pages:
        found.setdefault(page["group"], []).append(page["allocated"] / HUGE_PAGE)
    return {group: sorted(shares) for group, shares in found.items()}

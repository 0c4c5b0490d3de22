# SPDX-License-Identifier: Apache-2.0
"""A trace's summary (llamalloc.traces.info) for the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from llamalloc.formats.units import bytes_text, seconds_text
from llamalloc.reporting.frames import demangled

_FRAMES = 6  # of a stack that are shown


def show(found: dict[str, Any], console: Console) -> None:
    """Facts, sizes and lifetimes, and the stacks that allocated most."""
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in _facts(found):
        facts.add_row(name, escape(value))
    console.print(facts)
    console.print("\nsizes", style="bold")
    console.print(_sizes(found))
    console.print("\nlifetimes", style="bold")
    console.print(_lifetimes(found))
    if found["top_stacks"]:
        console.print("\nstacks that allocated most", style="bold")
        console.print(_stacks(found))


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    events = sum(found[key] for key in ("allocations", "resizes", "frees"))
    peak, live = bytes_text(found["peak_bytes"]), bytes_text(found["live_bytes"])
    rows = [
        ("trace", f"{found['file']} (version {found['version']})"),
        ("program", f"{found['command']} (pid {found['pid']})"),
        ("events", f"{events:,}: {found['allocations']:,} allocations, "
                   f"{found['resizes']:,} resizes, {found['frees']:,} frees "
                   f"({found['foreign_frees']:,} by another thread)"),
        ("threads", f"{found['threads']:,}"),
        ("duration", seconds_text(found["duration_ns"] / 1e9)),
        ("allocated", bytes_text(found["allocated_bytes"])),
        ("peak", f"{peak} in {found['peak_objects']:,} objects after "
                 f"{seconds_text(found['peak_time_ns'] / 1e9)}"),
        ("live at the end", f"{live} in {found['live_objects']:,} objects"),
        ("stacks", f"{found['stacks']:,} of {found['frames']:,} frames in "
                   f"{found['modules']:,} modules"),
        ("file", f"{bytes_text(found['file_bytes'])}, {found['file_bytes'] / max(events, 1):.1f} "
                 "bytes an event"),
    ]  # fmt: skip
    return rows + _losses(found)


def _losses(found: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if not found["ended_in_order"]:
        lost = f"; {found['lost_bytes']:,} bytes cut short" if found["lost_bytes"] else ""
        rows.append(("ended", f"killed, or the disk was full: the last events are missing{lost}"))
    if found["missing_frees"] or found["unknown_frees"]:
        rows.append(
            ("lost", f"{found['missing_frees']:,} frees missing, {found['unknown_frees']:,} frees "
                     "of objects from before the recording")
        )  # fmt: skip
    return rows


def _sizes(found: dict[str, Any]) -> Table:
    view = Table(box=None, pad_edge=False)
    for name in ("up to", "objects", "bytes", "share"):
        view.add_column(name, justify="right")
    total = max(sum(found["bytes_by_size_bits"]), 1)
    pairs = zip(found["objects_by_size_bits"], found["bytes_by_size_bits"], strict=True)
    for bits, (objects, size) in enumerate(pairs):
        if objects:
            limit = f"{(1 << bits) - 1} B" if bits < 11 else "< " + bytes_text(1 << bits)
            view.add_row(limit, f"{objects:,}", bytes_text(size), f"{size / total:.1%}")
    return view


def _lifetimes(found: dict[str, Any]) -> Table:
    """By decade: the buckets of the summary double, so a decade's border is rounded to one."""
    view = Table(box=None, pad_edge=False)
    for name in ("below", "objects", "share"):
        view.add_column(name, justify="right")
    counts = found["frees_by_lifetime_bits"]
    total = max(sum(counts), 1)
    start = 0
    for bits in (10, 14, 17, 20, 24, 27, 30, 34, 37, 40, 65):
        objects = sum(counts[start : bits + 1])
        start = bits + 1
        if objects:
            view.add_row(seconds_text((1 << bits) / 1e9), f"{objects:,}", f"{objects / total:.1%}")
    return view


def _stacks(found: dict[str, Any]) -> Table:
    view = Table(box=None, pad_edge=False)
    for name in ("bytes", "objects", "live at end", "mean life"):
        view.add_column(name, justify="right")
    view.add_column("allocation site and its callers", overflow="fold")
    readable = demangled(name for stack in found["top_stacks"] for name in stack["frames"])
    for stack in found["top_stacks"]:
        names = [escape(readable.get(name, name)) for name in stack["frames"][:_FRAMES]]
        more = len(stack["frames"]) - len(names)
        view.add_row(
            bytes_text(stack["bytes"]),
            f"{stack['objects']:,}",
            bytes_text(stack["live_bytes"]),
            seconds_text(lived / 1e9) if (lived := stack["mean_lifetime_ns"]) else "-",
            " < ".join(names) + (f" < {more} more" if more > 0 else "") or "(unknown)",
        )
    return view

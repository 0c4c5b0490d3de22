# SPDX-License-Identifier: Apache-2.0
"""Simulations for a terminal: one row a policy and predictor."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from llamalloc.formats.units import bytes_text, seconds_text
from llamalloc.running.simulation import BLIND, LOSSES, Agreement

_HEADS = ("average", "4 KiB", "drops", "worst", "peak", "huge", "pages", "outlived")
_CAUSES = ("rounding", "slots", "blocks", "empty", "caches", "metadata", "pinned")


def print_runs(results: list[dict[str, Any]], console: Console) -> None:
    """The trace, what each run cost, and where that went.

    average: over time; 4 KiB: the same, had the system no huge pages; drops, worst: after drops of
    the load; huge: share on huge pages; pages: huge pages acquired, counting every time.
    """
    trace = results[0]["trace"]
    ended = "" if trace["ended_in_order"] else "; killed or cut off: the last events may be missing"
    drops = "1 drop" if trace["drops"] == 1 else f"{trace['drops']} drops"
    console.print(
        f"[bold]{escape(trace['file'])}[/]: {trace['events']:,} events in {trace['contexts']:,} "
        f"contexts over {seconds_text(trace['duration_ns'] / 1e9)}; at most "
        f"{bytes_text(trace['peak_live'])} live; {drops} of the load{ended}"
    )
    view = _table("\nCharge by live bytes", *_HEADS)
    for result in results:
        view.add_row(*_row(result))
    console.print(view)
    console.print(_losses(results))


def _table(title: str, *heads: str) -> Table:
    view = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    view.add_column("policy, predictor", overflow="fold", min_width=16)
    for head in heads:
        view.add_column(head, justify="right", no_wrap=True)
    return view


def name_of(result: dict[str, Any]) -> str:
    """Policy and predictor; the policy alone where it does not look at lifetimes."""
    predictor = predictor_of(result)
    return result["policy"] if predictor == "-" else f"{result['policy']}, {predictor}"


def predictor_of(result: dict[str, Any]) -> str:
    """Its name with the injected errors; a dash where nothing looks at lifetimes."""
    if result["policy"] in BLIND:
        return "-"
    error = f" ±{result['error']:.2%}" if result["error"] else ""
    name = result["predictor"].encode(errors="surrogateescape").decode(errors="replace")
    return f"{name}{error}"


def _row(result: dict[str, Any]) -> list[str]:
    totals = result["totals"]
    placements = sum(row["placements"] for row in result["classes"])
    outlived = sum(row["outlived"] for row in result["classes"])
    drops = result["trace"]["drops"]
    return [
        escape(name_of(result)),
        f"{totals['average']:.3f}",
        f"{totals['average_small']:.3f}",
        f"{totals['after_drops']:.3f}" if drops else "-",
        f"{totals['worst_drop']:.3f}" if drops else "-",
        f"{totals['peak']:.3f}",
        f"{totals['coverage']:.0%}",
        f"{totals['huge_pages_acquired']:,}",
        f"{outlived / max(placements, 1):.3%}",
    ]


def _losses(results: list[dict[str, Any]]) -> Table:
    """By what is live: means over the samples. Pinned (of slots and blocks) after the last drop, by
    what was live at the peak: little or nothing may be live then.
    """
    view = _table("\nLost, by live bytes (pinned: by live bytes at the peak)", *_CAUSES)
    for result in results:
        samples = [m for m in result["moments"] if m["kind"] == "sample"]
        live = max(sum(m["live"] for m in samples), 1)
        low = last_low(result)
        shares = [sum(m[name] for m in samples) / live for name in LOSSES]
        shares.append(low["pinned"] / max(result["trace"]["peak_live"], 1))
        view.add_row(escape(name_of(result)), *(f"{share:.1%}" for share in shares))
    return view


def last_low(result: dict[str, Any]) -> dict[str, Any]:
    """The moment after the last drop; the end where there was none."""
    return next(
        m for kind in ("drop", "end") for m in reversed(result["moments"]) if m["kind"] == kind
    )


def print_agreement(agreement: Agreement, console: Console) -> bool:
    """What simulation and replay say; True if they agree, on average and at the peak."""
    mark = "[green]agree[/]" if agreement.holds else "[bold red]do not agree[/]"
    console.print(
        f"Simulated by replayed, resident: {agreement.average:.3f} on average, "
        f"{agreement.peak:.3f} at the peak ({bytes_text(max(agreement.real))}); they {mark}."
    )
    return agreement.holds

# SPDX-License-Identifier: Apache-2.0
"""`llamalloc report`: shows profiles, statistics and state files as text, HTML or JSON."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from llamalloc.formats import learned_state


def report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Profiles, statistics and state files."),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Write a self-contained HTML page.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> int:
    """Show where memory goes, from a profile or from statistics.

    `llamalloc record` writes a profile. The report shows the lifetimes of its objects, the call
    sites that allocate most, and what was still alive at the end. `llamalloc run --stats` writes
    statistics. The report shows the memory of each page group, the few objects that keep nearly
    free huge pages in use, and how good the predictions were. A state file
    (`NAME.learned`) shows what a program has learned.

    Examples:

        llamalloc report p.pb.gz

        llamalloc report p.pb.gz s.json --html out.html

        llamalloc report /var/lib/llamalloc/redis-server.learned

        llamalloc report --json s.json | jq .[0].counters.outlivers
    """
    try:
        summaries = [_summary(file) for file in files]
    except ValueError as error:
        print(f"llamalloc: {error}", file=sys.stderr)
        return 2
    if html is not None:
        _write_page(summaries, html)
    if json:
        _print_json(summaries)
    elif html is None:
        _print_text(summaries)
    return 0


def _summary(file: Path) -> Any:
    """A ProfileSummary, StatsSummary or LearnedSummary. Raises its reader's ValueError."""
    from llamalloc.reporting import stats_summary
    from llamalloc.running import memory_now

    start = _start_of(file)
    if start.startswith(learned_state.MAGIC):
        from llamalloc.reporting import learned_summary

        return learned_summary.summarise(learned_state.read(file), str(file))
    if start.lstrip()[:1] == b"{":
        document = stats_summary.read(file)
        now = memory_now.sentence(document.get("pid", 0), document.get("command", ""))
        return stats_summary.summarise(document, str(file), now)
    from llamalloc.formats import profile
    from llamalloc.reporting import profile_summary

    return profile_summary.summarise(profile.read(file))


def _start_of(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(64)
    except OSError as error:
        raise ValueError(f"{file}: {(error.strerror or str(error)).lower()}") from error


def _print_text(summaries: list[Any]) -> None:
    from rich.console import Console

    from llamalloc.reporting import text

    console = Console(highlight=False)
    for number, summary in enumerate(summaries):
        if number:
            console.rule()
        text.print_summary(summary, console)


def _print_json(summaries: list[Any]) -> None:
    import json
    from dataclasses import asdict

    print(json.dumps([asdict(summary) for summary in summaries], indent=1))


def _write_page(summaries: list[Any], path: Path) -> None:
    from llamalloc.reporting import html
    from llamalloc.reporting.page import Page

    page = Page(", ".join(dict.fromkeys(summary.program for summary in summaries)))
    for summary in summaries:
        page.paragraph(summary.file, "soft")
        html.add_summary(page, summary)
    try:
        path.write_text(page.render())
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}", param_hint="--html") from error
    print(f"llamalloc: wrote {path}", file=sys.stderr)

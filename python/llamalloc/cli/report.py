# SPDX-License-Identifier: Apache-2.0
"""`llamalloc report`: shows profiles, statistics, state files and processes; text, HTML or JSON."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from llamalloc.formats import file_kinds, learned_state, regular_file


@dataclass(frozen=True)
class _Item:
    """A summary, and the profile that it was made of."""

    summary: Any
    profile: Any = None


def report(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|PID|ADDRESS...",
            help="Profiles, statistics, state files; a running process by its PID, its control "
            "socket or the address where it serves HTTP.",
        ),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="OUT.html", help="Write a self-contained HTML page.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Compare two profiles: BEFORE AFTER.")
    ] = False,
) -> int:
    """Show where memory goes, from a profile or from statistics.

    `llamalloc record` writes a profile. The report shows who uses memory (with --html as a flame
    graph), live memory along time and at its peak, the lifetimes of objects, the call sites that
    allocate most, and what was still alive at the end. `llamalloc run --stats` writes statistics.
    The report shows the memory of each page group, the few objects that keep nearly free huge pages
    in use, and how good the predictions were. A state file (`NAME.learned`) shows what a program
    has learned.

    A running process is asked for both. With only a PID, and neither `http` nor `control` among its
    options, there are counters and no call sites.

    Examples:

        llamalloc report p.pb.gz --html out.html

        llamalloc report --diff yesterday.pb.gz today.pb.gz --html out.html

        llamalloc report 4711

        llamalloc report 127.0.0.1:9109 --html out.html

        llamalloc report /run/server.sock

        llamalloc report /var/lib/llamalloc/server.learned

        llamalloc report --json s.json | jq .[0].counters.outlivers
    """
    if html is not None:
        file_kinds.check_output(html, None, map(Path, files))
    try:
        if diff:
            return _difference(files, html, json)
        items = [item for name in files for item in _items(name)]
    except ValueError as error:
        print(f"llamalloc: {error}", file=sys.stderr)
        return 1
    if html is not None:
        _write_page(items, html)
    if json:
        _print_json([item.summary for item in items])
    elif html is None:
        _print_text([item.summary for item in items])
    return 0


def _items(name: str) -> list[_Item]:
    """What a file or a process gives. Raises ValueError."""
    from llamalloc.running import look_up

    if not look_up.is_process(name):
        return [_item(Path(name))]
    with tempfile.TemporaryDirectory(prefix="llamalloc-") as folder:
        paths, missing = look_up.fetch(name, Path(folder))
        if missing:
            print(f"llamalloc: {missing}", file=sys.stderr)
        found = [_of_process(path, missing) for path in paths]
    return [replace(i, summary=replace(i.summary, file=name)) for i in found if i is not None]


def _of_process(path: Path, missing: str) -> _Item | None:
    """None: the process has not taken a sample yet, and its statistics are shown alone."""
    from llamalloc.formats.profile import ProfileError

    try:
        return _item(path)
    except ProfileError as error:
        if not missing:
            cause = str(error).removeprefix(f"{path}: ")
            print(f"llamalloc: no profile: {cause}", file=sys.stderr)
        return None


def _item(file: Path) -> _Item:
    """A ProfileSummary, StatsSummary or LearnedSummary. Raises its reader's ValueError."""
    from llamalloc.reporting import stats_summary
    from llamalloc.running import memory_now

    start = _start_of(file)
    if start.startswith(learned_state.MAGIC):
        from llamalloc.reporting import learned_summary

        return _Item(learned_summary.summarise(learned_state.read(file), str(file)))
    if start.lstrip()[:1] == b"{":
        document = stats_summary.read(file)
        now = memory_now.sentence(document.get("pid", 0), document.get("command", ""))
        return _Item(stats_summary.summarise(document, str(file), now))
    from llamalloc.formats import profile
    from llamalloc.reporting import profile_summary

    found = profile.read(file)
    return _Item(profile_summary.summarise(found), found)


def _start_of(file: Path) -> bytes:
    try:
        with regular_file.opened(file) as stream:
            return stream.read(64)
    except IsADirectoryError:
        raise ValueError(f"{file}: is a folder; name a file in it") from None
    except OSError as error:
        raise ValueError(f"{file}: {(error.strerror or str(error)).lower()}") from error


def _difference(files: list[str], html: Path | None, json: bool) -> int:
    """BEFORE and AFTER, as a page, JSON or text. Raises ValueError."""
    from llamalloc.reporting import comparison, comparison_page

    if len(files) != 2:
        raise typer.BadParameter(
            f"compares two profiles, BEFORE AFTER; {len(files)} were given", param_hint="--diff"
        )
    before, after = (_profile(name) for name in files)
    found = comparison.compare(before, after)
    if html is not None:
        _write(comparison_page.page(found, before, after).render(), html)
    if json:
        _print_json([found])
    elif html is None:
        from rich.console import Console

        comparison_page.print_comparison(found, Console(highlight=False))
    return 0


def _profile(name: str) -> Any:
    found = [item.profile for item in _items(name) if item.profile is not None]
    if not found:
        raise ValueError(f"{name}: holds no profile; record one with: llamalloc record -o p.pb.gz")
    return replace(found[0], path=Path(name))


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


def _write_page(items: list[_Item], path: Path) -> None:
    from llamalloc.reporting import html
    from llamalloc.reporting.page import Page

    page = Page(", ".join(dict.fromkeys(item.summary.program for item in items)))
    for item in items:
        page.paragraph(item.summary.file, "soft")
        html.add_summary(page, item.summary, item.profile)
    _write(page.render(), path)


def _write(text: str, path: Path) -> None:
    regular_file.write(path, text.encode(errors="replace"))
    print(f"llamalloc: wrote {path}", file=sys.stderr)

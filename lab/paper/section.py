# SPDX-License-Identifier: Apache-2.0
"""A section of the page: text, tables, pictures; and an exhibit, which makes one."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.paper.context import Context

Results = dict[str, Any]  # of JSON


@dataclass
class Section:
    """`pictures`: PNG by the file's stem."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A Markdown table; the first column is text, the others are figures."""
        rule = ["---", *("---:" for _ in head[1:])]
        lines = [head, rule, *([str(cell) for cell in row] for row in rows)]
        self.paragraphs.append("\n".join("| " + " | ".join(line) + " |" for line in lines))

    def markdown(self, pictures_at: str) -> str:
        """The section, with its pictures as links into a folder."""
        links = [f"![{self.title}]({pictures_at}/{stem}.png)" for stem in self.pictures]
        text = [one if one.startswith("|") else _wrapped(one) for one in self.paragraphs]
        return "\n\n".join([f"## {self.title}", *text, *links]) + "\n"


@dataclass(frozen=True)
class Exhibit:
    """`measure` gives results that JSON can hold; `show` makes the section of them."""

    name: str
    minutes: float
    measure: Callable[[Context], Results]
    show: Callable[[Results], Section]


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(paragraph, 118, break_long_words=False, break_on_hyphens=False)


def mib(value: float) -> str:
    """Bytes as MiB."""
    return f"{value / 2**20:,.0f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"

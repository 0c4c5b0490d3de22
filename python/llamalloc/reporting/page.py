# SPDX-License-Identifier: Apache-2.0
"""A self-contained HTML page: one file, pictures inside, nothing fetched, light and dark."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from llamalloc.reporting import flame

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60666d; --line: #d9dce0;
  --paper: #fff; --mark: #fff3f2; --accent: #c0272d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --soft: #9aa1a8; --line: #3a3f45;
  --paper: #16191c; --mark: #3a2021; --accent: #f0787c; } }
body { background: var(--paper); color: var(--ink); max-width: 62rem; margin: 2.5rem auto;
  padding: 0 1.25rem; font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.8rem 0 .4rem; }
p { margin: .5rem 0; max-width: 46rem; } .soft, figcaption, caption { color: var(--soft); }
table { border-collapse: collapse; margin: .8rem 0; font-size: .92rem; width: 100%; }
caption { caption-side: bottom; text-align: left; padding-top: .4rem; font-size: .85rem; }
th, td { padding: .32rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; vertical-align: top; }
th { font-weight: 600; color: var(--soft); } th:first-child, td:first-child { text-align: left; }
tr.mark td { background: var(--mark); font-weight: 600; }
td.code { font: .82rem/1.4 ui-monospace, "DejaVu Sans Mono", monospace; word-break: break-word; }
td.code ~ td { white-space: nowrap; }
figure { margin: 1rem 0; } figure img { width: 100%; } figure svg { max-width: 100%; }
figure img, figure svg { height: auto; background: #fff; border-radius: 6px; }
figcaption { font-size: .88rem; max-width: 46rem; }
.scroll { overflow-x: auto; } code { font-size: .9em; }
.note { border-left: 3px solid var(--accent); padding: .1rem 0 .1rem .9rem; }
"""


def text(value: object) -> str:
    """Any value as HTML text."""
    return html.escape(str(value))


@dataclass
class Page:
    """Collects sections; `render` gives the whole document."""

    title: str
    parts: list[str] = field(default_factory=list)
    graphs: int = 0  # flame graphs, which need a script

    def heading(self, words: str) -> None:
        self.parts.append(f"<h2>{text(words)}</h2>")

    def paragraph(self, words: str, kind: str = "") -> None:
        """`kind`: soft, note, or nothing."""
        start = f'<p class="{kind}">' if kind else "<p>"
        self.parts.append(f"{start}{text(words)}</p>")

    def table(
        self,
        heads: Sequence[str],
        rows: Iterable[Sequence[object]],
        caption: str = "",
        marked: Sequence[int] = (),
        code: bool = False,
    ) -> None:
        """`marked`: numbers of rows to stress; `code`: the first column is code."""
        head = "".join(f"<th>{text(h)}</th>" for h in heads)
        body = "".join(self._row(row, number in marked, code) for number, row in enumerate(rows))
        below = f"<caption>{text(caption)}</caption>" if caption else ""
        self.parts.append(
            f'<div class="scroll"><table>{below}<thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    @staticmethod
    def _row(cells: Sequence[object], marked: bool, code: bool) -> str:
        kinds = [' class="code"' if code and i == 0 else "" for i in range(len(cells))]
        inner = "".join(f"<td{k}>{text(c)}</td>" for k, c in zip(kinds, cells, strict=True))
        return f'<tr class="mark">{inner}</tr>' if marked else f"<tr>{inner}</tr>"

    def picture(self, png: bytes, alternative: str, caption: str = "") -> None:
        """A PNG, embedded."""
        data = base64.b64encode(png).decode()
        below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
        self.parts.append(
            f'<figure><img alt="{text(alternative)}" src="data:image/png;base64,{data}">'
            f"{below}</figure>"
        )

    def drawing(self, svg: str, alternative: str) -> None:
        """An <svg> element, as it is."""
        self.parts.append(f'<figure role="img" aria-label="{text(alternative)}">{svg}</figure>')

    def flame_graph(self, data: str, views: Sequence[str], alternative: str) -> None:
        """`data`: of flame.graph_json; `views`: a button each."""
        self.graphs += 1
        buttons = "".join(
            f'<button type="button" data-view="{number}">{text(label)}</button>'
            for number, label in enumerate(views)
        )
        self.parts.append(
            f'<div class="flame" role="group" aria-label="{text(alternative)}"><div class="bar">'
            f'{buttons}<input type="search" placeholder="Search" aria-label="Search a function">'
            f'<button type="button" class="all">Show all</button><span class="found"></span></div>'
            f'<p class="told"></p><div class="graph"></div>'
            f'<script type="application/json">{data}</script></div>'
        )

    def render(self) -> str:
        """The document."""
        style, script = _STYLE, ""
        if self.graphs:
            style, script = _STYLE + flame.STYLE, f"<script>{flame.SCRIPT}</script>"
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{text(self.title)}</title><style>{style}</style></head><body>"
            f"<h1>{text(self.title)}</h1>{''.join(self.parts)}{script}</body></html>\n"
        )

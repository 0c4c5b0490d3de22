# SPDX-License-Identifier: Apache-2.0
"""The account of a training: a table for the terminal and one self-contained HTML page."""

import html
import io
from collections.abc import Iterable
from pathlib import Path

from llamalloc.learning.train_result import SPLITS, TrainResult, contexts_by_class
from llamalloc.reporting import train_charts

_PARTS = {
    "measured": "Not learned",
    "never seen": "… never seen before",
    "learned": "Learned",
}
_COLUMNS = ("weighted", "contexts", "within one", "page group", "known")
_FIELDS = ("weighted", "unweighted", "off_by_one", "page_group", "coverage")
_FRAMES_SHOWN = 12


def text(result: TrainResult, width: int = 100) -> str:
    """The result for a terminal, as one string with colours where it goes to one."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Accuracy on {SPLITS[result.split]}", title_justify="left")
    table.add_column("contexts")
    table.add_column("predictor")
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    for part, name, cells in _rows(result):
        table.add_row(part, name, *cells, end_section=name == "site")
    console = Console(width=width, file=io.StringIO(), force_terminal=None)
    console.print(table)
    console.print(f"{_summary(result)}", highlight=False)
    return console.file.getvalue().rstrip()


def _rows(result: TrainResult) -> Iterable[tuple[str, str, list[str]]]:
    """(part, predictor, cells); the part is named on its first row only."""
    for part, title in _PARTS.items():
        if part == "never seen" and result.scores[part] == result.scores["measured"]:
            continue  # nothing of what was measured had been seen
        for name, score in result.scores.get(part, {}).items():
            yield title, name, [_percent(getattr(score, field)) for field in _FIELDS]
            title = ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _summary(result: TrainResult) -> str:
    learned, measured = result.learned, result.measured_on
    return (
        f"{result.program}: learned {len(learned):,} contexts of {learned.weights.sum():,.0f} "
        f"allocations ({_count(len(result.profiles), 'profile')}), measured on {len(measured):,}.\n"
        f"The model is right on {_percent(result.shipped.weighted)} of the allocations and "
        f"{_percent(result.shipped.unweighted)} of the contexts that it learned from; rule "
        f"{result.rule}, {result.vocabulary:,} tokens.\n"
        f"{result.model_path}: {result.model_bytes / 1024:,.0f} KiB, {result.steps:,} steps, "
        f"{result.seconds:.0f} s."
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def write_html(result: TrainResult, path: Path) -> None:
    """Writes the page: no scripts, no links, pictures inside. Raises OSError."""
    Path(path).write_text(page(result), encoding="utf-8")


def page(result: TrainResult) -> str:
    """The whole HTML document."""
    body = "\n".join(
        [
            f"<h1>Lifetimes of {html.escape(result.program)}</h1>",
            f"<p>{_escaped_lines(_summary(result))}</p>",
            section(result),
        ]
    )
    return _DOCUMENT.format(title=html.escape(result.program), body=body)


def section(result: TrainResult) -> str:
    """The parts below the title, for a page that holds more than this."""
    return "\n".join(
        [
            f"<h2>How right</h2><p>Measured on {SPLITS[result.split]}. {_READING}</p>",
            _accuracy_table(result),
            *([_CONFUSION, train_charts.confusion(result)] if len(result.measured_on) else []),
            f"<h2>How long objects live</h2><p>{_LIFETIMES}</p>",
            train_charts.lifetimes(result),
            _class_table(result),
            "<h2>The weightiest errors</h2>",
            _wrong_table(result),
        ]
    )


def _accuracy_table(result: TrainResult) -> str:
    rows = [
        f'<tr class="{"first" if part else ""} {"model" if name == "model" else ""}">'
        f"<td>{part}</td><td>{name}</td>" + "".join(f"<td class=n>{cell}</td>" for cell in cells)
        for part, name, cells in _rows(result)
    ]
    head = "".join(f"<th class=n>{column}</th>" for column in _COLUMNS)
    return f"<table><tr><th>contexts</th><th>predictor</th>{head}</tr>{''.join(rows)}</table>"


def _class_table(result: TrainResult) -> str:
    shares = result.lifetimes.dead.sum(axis=1) + result.lifetimes.alive
    rows = [
        f"<tr><td>{train_charts.CLASS_LABELS[name]}</td><td class=n>{count:,}</td>"
        f"<td class=n>{_percent(share)}</td></tr>"
        for (name, count), share in zip(
            contexts_by_class(result.learned).items(), shares, strict=True
        )
        if count
    ]
    head = "<tr><th>class</th><th class=n>contexts</th><th class=n>allocations</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _wrong_table(result: TrainResult) -> str:
    if not result.wrong:
        return "<p>None: every context measured on is predicted as it lived.</p>"
    rows = [
        f"<tr><td class=n>{100 * wrong.share:.3g} %</td><td class=n>{wrong.samples:,}</td>"
        f"<td class=n>{wrong.size:,}</td><td class=c>{train_charts.CLASS_LABELS[wrong.truth]}</td>"
        f"<td class=c>{train_charts.CLASS_LABELS[wrong.predicted]} ({wrong.probability:.0%})</td>"
        f"<td class=stack>{_stack(wrong.frames)}</td></tr>"
        for wrong in result.wrong
    ]
    head = "<tr><th class=n>allocations</th><th class=n>samples</th><th class=n>bytes</th>"
    head += "<th>lived</th><th>predicted</th><th>stack, allocation site first</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _stack(frames: tuple[str, ...]) -> str:
    shown = [html.escape(name[:80]) for name in frames[:_FRAMES_SHOWN]]
    more = len(frames) - len(shown)
    return " &larr; ".join(shown) + (f" &larr; {more} more" if more else "")


def _escaped_lines(lines: str) -> str:
    return html.escape(lines).replace("\n", "<br>")


_READING = (
    "<b>Weighted</b> counts allocations, <b>contexts</b> counts every calling context once; "
    "<b>within one</b> lets the neighbouring class pass; <b>page group</b> asks only for the right "
    "kind of page, which is what the heap acts on; <b>known</b> is the share of allocations whose "
    "key the table had seen (the model answers always; a table without an entry says what is most "
    "common)."
)
_CONFUSION = (
    "<h2>What is taken for what</h2><p>Rows: how long the objects of a context lived. Columns: "
    "what the model says. Each row adds up to 100 % of the row's allocations.</p>"
)
_LIFETIMES = (
    "Share of all allocations by lifetime, coloured by the class of the context that made them. "
    "The scale is logarithmic both ways: most objects die young, and the few that stay are what "
    "keeps pages from being given back."
)
_DOCUMENT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Lifetimes of {title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62em; margin: 2em auto;
  padding: 0 1em; }}
h1 {{ font-size: 1.6em; }} h2 {{ font-size: 1.2em; margin-top: 2em; }}
table {{ border-collapse: collapse; margin: 1em 0; font-size: 0.93em; }}
th, td {{ text-align: left; padding: 0.25em 0.8em; border-bottom: 1px solid #e4e4e4;
  vertical-align: top; }}
th {{ border-bottom: 2px solid #999; font-weight: 600; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
tr.model td {{ font-weight: 600; }} tr.first td {{ border-top: 1px solid #999; }}
.c {{ white-space: nowrap; }}
.stack {{ font: 0.88em/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }}
svg, img {{ max-width: 100%; height: auto; }}
</style>
<body>
{body}
</body></html>
"""

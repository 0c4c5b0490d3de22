# SPDX-License-Identifier: Apache-2.0
"""The account of a training: a table for the terminal and one self-contained HTML page."""

import io
from collections.abc import Iterable
from pathlib import Path

from llamalloc.formats import regular_file
from llamalloc.formats.learned_state import GateVerdict
from llamalloc.learning import saving
from llamalloc.learning.train_result import SPLITS, TrainResult, contexts_by_class
from llamalloc.reporting import train_charts
from llamalloc.reporting.frames import demangled
from llamalloc.reporting.page import Page

_PARTS = {
    "measured": "Not learned",
    "never seen": "… never seen before",
    "learned": "Learned",
}
_COLUMNS = ("weighted", "contexts", "within one", "page group", "known")
_FIELDS = ("weighted", "unweighted", "off_by_one", "page_group", "coverage")
_FRAMES_SHOWN = 12
_EVIDENCE_COLUMNS = ("contexts", "allocations", "right page group", "bytes", "right page group")
_KINDS = {
    "exact": "exact: by build and offset",
    "name": "name: by function names",
    "prior": "site prior",
    "network": "network",
    "none": "none: placed as unknown",
    "all": "all",
}
_USE = {
    "yes": "Verdict: use the model.",
    "no": "Verdict: do not use the model.",
    "unknown": "Verdict: not known whether the model helps.",
}


def text(result: TrainResult, width: int = 100) -> str:
    """The result for a terminal, as one string with colours where it goes to one."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=width, file=io.StringIO(), force_terminal=None)
    if result.scores:
        table = Table(title=f"Accuracy on {SPLITS[result.split]}", title_justify="left")
        table.add_column("contexts")
        table.add_column("predictor")
        for column in _COLUMNS:
            table.add_column(column, justify="right")
        for part, name, cells in _rows(result):
            table.add_row(part, name, *cells, end_section=name == "site")
        console.print(table)
    if result.trial.kinds:
        table = Table(title="What the library would use there, in this order", title_justify="left")
        table.add_column("evidence")
        for column in _EVIDENCE_COLUMNS:
            table.add_column(column, justify="right")
        for cells in _evidence_rows(result):
            table.add_row(*cells)
        console.print(table)
    for line in (*_verdict(result), *_summary(result).splitlines()):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return console.file.getvalue().rstrip()


def _evidence_rows(result: TrainResult) -> Iterable[tuple[str, ...]]:
    for score in (*result.trial.kinds, result.trial.total):
        right, of_bytes = _measured(score.right_allocations), _measured(score.right_bytes)
        yield (
            _KINDS[score.kind],
            f"{score.contexts:,}",
            _percent(score.allocations),
            right,
            _percent(score.bytes),
            of_bytes,
        )


def _verdict(result: TrainResult) -> list[str]:
    """What to do, and why."""
    return [_USE[result.verdict.use], *result.verdict.reasons, _start(result)]


def _start(result: TrainResult) -> str:
    """What a process with the model does before it has measured anything."""
    gate = result.gate
    if gate.verdict == GateVerdict.UNTRIED:
        return (
            "A process starts without placing by it, since the runs do not prove that this saves "
            "memory. It places by it once it has measured that itself."
        )
    return (
        f"A process places by it from its first allocation on: {saving.clause(gate)}. At low load, "
        f"free memory that stayed held was {gate.blind.low / 1000:.0%} of the peak without it "
        f"(held / live {gate.blind.ratio / 1000:.2f})."
    )


def _measured(share: float) -> str:
    """Never 100 %: no measurement shows that."""
    return _percent(min(share, 0.999))


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
    inputs = [_count(len(result.profiles), "profile")] if result.profiles else []
    inputs += [_count(len(result.states), "state file")] if result.states else []
    return (
        f"{result.program}: learned {len(learned):,} contexts of {learned.weights.sum():,.0f} "
        f"allocations ({', '.join(inputs)}), measured on {len(measured):,}; rule {result.rule}.\n"
        f"{result.model_path}: {result.model_bytes / 1024:,.0f} KiB, exact table of "
        f"{len(result.evidence.exact_keys):,} nodes, name table of "
        f"{len(result.evidence.name_keys):,}, network of {result.vocabulary:,} tokens "
        f"({result.steps:,} steps); {result.seconds:.0f} s."
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def write_html(result: TrainResult, path: Path) -> None:
    """Writes the page: no scripts, no links, pictures inside. Raises OSError."""
    regular_file.write(path, page(result).encode(errors="replace"))


def page(result: TrainResult) -> str:
    """The whole HTML document."""
    made = Page(f"Lifetimes of {result.program}")
    for line in (*_verdict(result), *_summary(result).splitlines()):
        made.paragraph(line)
    if result.trial.kinds:
        made.heading("What the library would use")
        made.paragraph(_ORDER)
        made.table(("evidence", *_EVIDENCE_COLUMNS), list(_evidence_rows(result)))
    if not result.scores:
        return made.render()
    made.heading("How right")
    made.paragraph(f"Measured on {SPLITS[result.split]}. {_READING}")
    _accuracy_table(made, result)
    if len(result.measured_on):
        made.heading("What is taken for what")
        made.paragraph(_CONFUSION)
        made.drawing(train_charts.confusion(result), "predicted class by true class")
    made.heading("How long objects live")
    made.paragraph(_LIFETIMES)
    made.drawing(train_charts.lifetimes(result), "share of allocations by lifetime")
    _class_table(made, result)
    made.heading("The weightiest errors")
    _wrong_table(made, result)
    return made.render()


def _accuracy_table(page: Page, result: TrainResult) -> None:
    rows = [(part, name, *cells) for part, name, cells in _rows(result)]
    models = [number for number, row in enumerate(rows) if row[1] == "model"]
    page.table(("contexts", "predictor", *_COLUMNS), rows, marked=models)


def _class_table(page: Page, result: TrainResult) -> None:
    shares = result.lifetimes.dead.sum(axis=1) + result.lifetimes.alive
    counts = contexts_by_class(result.learned).items()
    rows = [
        (train_charts.CLASS_LABELS[name], f"{count:,}", _percent(share))
        for (name, count), share in zip(counts, shares, strict=True)
        if count
    ]
    page.table(("class", "contexts", "allocations"), rows)


def _wrong_table(page: Page, result: TrainResult) -> None:
    if not result.wrong:
        page.paragraph("None: every context measured on is predicted as it lived.")
        return
    readable = demangled(name for wrong in result.wrong for name in wrong.frames)
    rows = [
        (
            _stack(tuple(readable.get(name, name) for name in wrong.frames)),
            f"{100 * wrong.share:.3g} %",
            f"{wrong.samples:,}",
            f"{wrong.size:,}",
            train_charts.CLASS_LABELS[wrong.truth],
            f"{train_charts.CLASS_LABELS[wrong.predicted]} ({wrong.probability:.0%})",
        )
        for wrong in result.wrong
    ]
    heads = ("stack, allocation site first", "allocations", "samples", "bytes", "lived")
    page.table((*heads, "predicted"), rows, code=True)


def _stack(frames: tuple[str, ...]) -> str:
    shown = [name[:80] for name in frames[:_FRAMES_SHOWN]]
    more = len(frames) - len(shown)
    return " ← ".join(shown) + (f" ← {more} more" if more else "")


_ORDER = (
    "The library asks the exact table first, then the name table, then whichever of site prior and "
    "network was right more often where as much of the stack was known. Shares of the allocations "
    "and bytes that were measured; right: the page group in which the objects belong."
)
_READING = (
    "Weighted counts allocations, contexts counts every calling context once; within one lets the "
    "neighbouring class pass; page group asks only for the right kind of page, which is what the "
    "heap acts on; known is the share of allocations whose key the table had seen (the network "
    "always answers; a table without an entry gives the most common class)."
)
_CONFUSION = (
    "Rows: how long the objects of a context lived. Columns: what the model says. Each row adds up "
    "to 100 % of the row's allocations."
)
_LIFETIMES = (
    "Share of all allocations by lifetime, coloured by the class of the context that made them. "
    "Both scales are logarithmic: most objects die young, and the few that stay keep pages from "
    "being given back."
)

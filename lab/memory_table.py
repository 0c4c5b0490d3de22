# SPDX-License-Identifier: Apache-2.0
"""The columns of a table on memory: charge and RSS at the end, on average and at the peak, and the
peak over the most that was live. One figure a column, the median over the runs."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence

from rich.table import Table

from llamalloc.running.memory_figures import TITLES, Memory

MIB = 1 << 20
_HEAD = 9  # characters of a line of a head
RATIO = "over_live"  # the one figure that is no size


def wrapped(head: str) -> str:
    """A head in lines, so that many columns fit beside each other."""
    return "\n".join(textwrap.wrap(head, _HEAD, break_long_words=False))


def head(name: str) -> str:
    """Of the column of a figure."""
    return TITLES[name] if name == RATIO else f"{TITLES[name]} MiB"


def median(name: str, found: Sequence[Memory]) -> float | None:
    """Over the runs that have the figure."""
    values = [figures[name] for one in found if name in (figures := one.figures())]
    return statistics.median(values) if values else None


def mib(value: float) -> str:
    """A size, in MiB."""
    return f"{value / MIB:,.1f}" if abs(value) < 10 * MIB else f"{value / MIB:,.0f}"


def text(name: str, value: float | None) -> str:
    """A figure; a dash where nothing was measured."""
    if value is None:
        return "-"
    return f"{value:.2f}" if name == RATIO else mib(value)


def add_columns(view: Table) -> None:
    """All of them."""
    for name in TITLES:
        view.add_column(wrapped(head(name)), justify="right")


def cells(found: Sequence[Memory]) -> list[str]:
    """One for each column."""
    return [text(name, median(name, found)) for name in TITLES]

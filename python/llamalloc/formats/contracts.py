# SPDX-License-Identifier: Apache-2.0
"""The tables of contracts/*.def, read and not restated.

A row of a table is `ROW(arg, arg, ...)`, with C string literals, integers and bare words as
arguments; `//` comments and `#` lines are for the C++ reader. C++ includes the same files, so
both languages see one list of classes, options and counters.
"""

import re
from dataclasses import dataclass
from functools import cache

from llamalloc.formats.places import contracts_folder as folder

_ROW = re.compile(r"^(?P<macro>[A-Z_]+)\((?P<arguments>.*)\)$")
_ARGUMENT = re.compile(r'\s*(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>[^,"]*?))\s*(?:,|$)')


@dataclass(frozen=True)
class PageGroup:
    """What one huge page holds. `deadline_ns` 0: the group has no deadline."""

    name: str
    deadline_ns: int
    meaning: str


@dataclass(frozen=True)
class LifetimeClass:
    """One output of the model. `upper_bound_ns` 0: without bound."""

    name: str
    upper_bound_ns: int
    page_group: str
    meaning: str


@dataclass(frozen=True)
class Option:
    """One key of LLAMALLOC_CONF. Bounds in bytes, nanoseconds or counts, by `kind`."""

    kind: str
    name: str
    default: int | str
    minimum: int
    maximum: int
    is_path: bool
    help: str


@dataclass(frozen=True)
class Stat:
    """One counter or gauge of the library's statistics."""

    name: str
    unit: str
    kind: str
    help: str


@dataclass(frozen=True)
class ExportedName:
    """One symbol of the libraries. `origin`: C, POSIX, glibc ... as api.def lists them."""

    symbol: str
    origin: str
    signature: str
    contract: str


def rows(table: str, macro: str) -> list[list[str | int]]:
    """Arguments of every `macro(...)` row of contracts/`table`, in file order.

    Raises ValueError, naming the line, for a row that does not parse.
    """
    text = (folder() / table).read_text(encoding="utf-8")
    matches = (_ROW.match(line.strip()) for line in text.splitlines())
    return [_arguments(m["arguments"]) for m in matches if m and m["macro"] == macro]


def _arguments(text: str) -> list[str | int]:
    values: list[str | int] = []
    position = 0
    while position < len(text):
        match = _ARGUMENT.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(f"contracts: cannot read the arguments ({text})")
        position = match.end()
        values.append(_value(match))
    return values


def _value(match: re.Match[str]) -> str | int:
    if match["text"] is not None:
        return match["text"].replace('\\"', '"').replace("\\\\", "\\")
    word = match["word"]
    return int(word) if re.fullmatch(r"-?\d+", word) else word


@cache
def page_groups() -> tuple[PageGroup, ...]:
    """PAGE_GROUP rows of lifetime_classes.def; `unknown` first."""
    return tuple(PageGroup(*row) for row in rows("lifetime_classes.def", "PAGE_GROUP"))


@cache
def lifetime_classes() -> tuple[LifetimeClass, ...]:
    """LIFETIME_CLASS rows of lifetime_classes.def: the model's outputs, in their order."""
    return tuple(LifetimeClass(*row) for row in rows("lifetime_classes.def", "LIFETIME_CLASS"))


def class_names() -> tuple[str, ...]:
    """Names of the lifetime classes, in the order of the model's outputs."""
    return tuple(row.name for row in lifetime_classes())


@cache
def options() -> tuple[Option, ...]:
    """OPTION rows of options.def."""
    return tuple(
        Option(kind, name, default, low, high, is_path == "true", text)
        for kind, name, default, low, high, is_path, text in rows("options.def", "OPTION")
    )


@cache
def stats() -> tuple[Stat, ...]:
    """STAT rows of stats.def."""
    return tuple(Stat(*row) for row in rows("stats.def", "STAT"))


@cache
def exported_names() -> tuple[ExportedName, ...]:
    """API rows of api.def: what every library exports."""
    return tuple(ExportedName(*row) for row in rows("api.def", "API"))


@cache
def shared_names() -> tuple[ExportedName, ...]:
    """API_SHARED rows of api.def: what the shared libraries export besides."""
    return tuple(ExportedName(*row) for row in rows("api.def", "API_SHARED"))


@cache
def static_names() -> tuple[str, ...]:
    """API_STATIC rows of api.def: what the static library defines besides."""
    return tuple(row[0] for row in rows("api.def", "API_STATIC"))

# SPDX-License-Identifier: Apache-2.0
"""The ways in which the load tells its two allocation sites apart, and how it is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar


@dataclass(frozen=True)
class Told:
    """How two stacks differ. Frames are return addresses, innermost first.

    shared: frames that are equal before the first that differs.
    one_function: the frames that differ lie in one function.
    one_call: the frames behind those are equal, so one instruction called both.
    """

    shared: int
    one_function: bool = False
    one_call: bool = False


@dataclass(frozen=True)
class Way:
    """One file of workloads/sites/ways. `told`: what its return addresses must show."""

    name: str
    title: str
    told: Told
    source: str = ""
    defines: tuple[str, ...] = ()
    folds: bool = False  # needs a linker that folds identical functions

    @property
    def file(self) -> str:
        return f"{self.source or self.name}.cc"


WAYS = (
    Way("one_function", "two call sites in one function", Told(0, True, True)),
    Way("two_functions", "two functions", Told(0)),
    Way("folded", "two functions, folded by the linker", Told(1), folds=True),
    Way("wrapper", "one wrapper for both", Told(1)),
    Way("wrapper3", "three wrappers deep", Told(3), "wrapper", ("-DWRAPPERS=3",)),
    Way("template", "a template instance for both", Told(1)),
    Way("string", "std::string, inside libstdc++", Told(1)),
    Way("virtual", "one virtual call, two implementations", Told(0, one_call=True)),
    Way("factory", "one implementation of a virtual call", Told(1)),
)


@dataclass(frozen=True)
class Variant:
    """How it is compiled."""

    name: str
    flags: tuple[str, ...]
    stripped: bool = False


VARIANTS = (
    Variant("O2", ("-O2",)),
    Variant("O3-lto", ("-O3", "-flto")),
    Variant("frame-pointer", ("-O2", "-fno-omit-frame-pointer")),
    Variant("stripped", ("-O2",), stripped=True),
)


T = TypeVar("T", Way, Variant)


def chosen(words: str, among: tuple[T, ...]) -> list[T]:
    """Those named in `words`, by comma, in table order; all for none. Raises ValueError."""
    names = [word for word in words.split(",") if word]
    known = [one.name for one in among]
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
    return [one for one in among if not names or one.name in names]

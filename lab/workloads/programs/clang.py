# SPDX-License-Identifier: Apache-2.0
"""clang-19 compiles one large C++ file: workloads/clang/large.cc."""

from __future__ import annotations

from lab.places import WORKLOADS
from lab.workloads.recipe import Recipe, Session


class Clang(Recipe):
    """One process, from parsing to machine code."""

    name = "clang"
    title = "clang-19 -O2 compiles a large C++ file: templates, lambdas, the standard library"
    memory = "grows by syntax trees that stay; each function's analyses rise and die"
    packages = ("clang-19", "g++")
    programs = ("clang++-19",)
    seconds = 25

    def command(self, session: Session) -> list[str]:
        """The scale is the number of instances of a large template; 2 at least."""
        instances = session.scaled(18, 1)
        return [
            *("clang++-19", "-std=c++20", "-O2", "-c", f"-DINSTANCES={instances}"),
            *(["-DSMALL"] if session.scale < 0.2 else []),
            *(["-DTINY"] if session.scale < 0.01 else []),
            *("-o", str(session.folder / "large.o"), str(WORKLOADS / "clang" / "large.cc")),
        ]

# SPDX-License-Identifier: Apache-2.0
"""Words of a path that differ from process to process (src/base/path_pattern.h), and words that are
no paths (src/base/options.cc).

%p: the process ID; %e: the program's name; %t: when it started, in seconds since 1970;
%%: a percent sign.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"%(.?)", re.DOTALL)
WORDS = "a percent sign in a path is %%; %p is the PID, %e the program, %t the start time"
ON, OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


def check(pattern: str) -> None:
    """Raises ValueError for a word that is no path, or, naming the words, where a % begins none."""
    if pattern.lower() in (*ON, *OFF, "auto", "none"):
        raise ValueError(f"{pattern}: expected a path; write the whole path of a file of that name")
    for word in _WORD.finditer(pattern):
        if word[1] not in ("p", "e", "t", "%"):
            raise ValueError(f"{pattern}: {WORDS}")


def filled(pattern: str, pid: int | str, program: str, started: int | str) -> str:
    """The path of one process. Raises ValueError as `check` does."""
    check(pattern)
    values = {"p": str(pid), "e": program, "t": str(started), "%": "%"}
    return _WORD.sub(lambda word: values[word[1]], pattern)


def is_pattern(text: str) -> bool:
    """Whether the path holds a word that only the running process can fill."""
    return any(word[1] in ("p", "t") for word in _WORD.finditer(text))


def literal(path: str) -> str:
    """The pattern that means exactly this path."""
    return path.replace("%", "%%")

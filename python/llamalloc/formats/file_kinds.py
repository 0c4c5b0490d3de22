# SPDX-License-Identifier: Apache-2.0
"""Which of our files a path names, so that no output replaces an input or another kind of file.

A name tells nothing: `train -o *.pb.gz` names a recording as its model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from llamalloc.formats import learned_state, regular_file

PROFILE, MODEL, STATE, TRACE = "profile", "model", "state file", "trace"
TRACE_MAGIC = b"llmtrace"
_CURE = "would be lost; remove it, or name another file"


class OutputError(ValueError):
    """An output would replace what must be kept. The message names the file and the cause."""


def is_trace(path: Path) -> bool:
    """Whether the file begins as one. Raises OSError."""
    with regular_file.opened(path) as stream:
        return stream.read(len(TRACE_MAGIC)) == TRACE_MAGIC


def _is_model(path: Path) -> bool:
    """A length, and that much JSON."""
    with regular_file.opened(path) as stream:
        head = stream.read(9)
    return head[8:] == b"{" and int.from_bytes(head[:8], "little") < path.stat().st_size


def _is_profile(path: Path) -> bool:
    from llamalloc.formats import profile  # every command imports this file: it must be quick

    return profile.is_profile(path)


_KINDS = {
    STATE: learned_state.is_state_file,
    TRACE: is_trace,
    MODEL: _is_model,
    PROFILE: _is_profile,
}


def kind_of(path: Path) -> str | None:
    """The kind of the file; None: no file, or none of ours."""
    try:
        return next(
            (kind for kind, holds in _KINDS.items() if path.is_file() and holds(path)), None
        )
    except OSError:
        return None


def check_output(output: Path, kind: str | None = None, inputs: Iterable[Path] = ()) -> None:
    """Raises OutputError where a new file at `output`, of this kind or none of ours, would replace
    one of the inputs, or a file of ours of another kind."""
    if any(is_same(output, path) for path in inputs):
        raise OutputError(f"{output}: is an input, and {_CURE.replace('remove it, or ', '')}")
    found = kind_of(output)
    if found is not None and found != kind:
        raise OutputError(f"{output}: is a {found}, and {_CURE}")


def check_folder(output: Path) -> None:
    """Raises OutputError where no file can be made beside `output`."""
    if not output.parent.is_dir() or not os.access(output.parent, os.W_OK):
        raise OutputError(f"{output}: cannot be written; {output.parent} is not a writable folder")


def is_same(a: Path, b: Path) -> bool:
    """Whether both paths name one file, be it there or not."""
    try:
        return a.samefile(b)
    except OSError:
        return a.resolve() == b.resolve()

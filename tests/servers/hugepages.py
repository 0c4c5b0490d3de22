# SPDX-License-Identifier: Apache-2.0
"""The system's transparent-huge-page setting, changed for a moment and put back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def current() -> str:
    """`always`, `madvise` or `never`: the word in brackets."""
    return SETTING.read_text().split("[")[1].split("]")[0]


@contextmanager
def hugepages(mode: str) -> Iterator[None]:
    """Sets `mode` inside the block; skips the test, with the reason, where that is not allowed."""
    try:
        before = current()
        if before != mode:
            SETTING.write_text(mode)
    except OSError as error:
        pytest.skip(f"huge pages cannot be set to {mode}: {error}")
    try:
        yield
    finally:
        if before != mode:
            SETTING.write_text(before)

# SPDX-License-Identifier: Apache-2.0
"""The system's transparent-huge-page setting, changed for a moment and put back."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PR_SET_THP_DISABLE = 41  # linux/prctl.h
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


@contextmanager
def without_huge_pages() -> Iterator[None]:
    """Programs started inside the block get no huge pages, whatever the system's setting."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0:
        pytest.skip("the kernel does not know PR_SET_THP_DISABLE")
    try:
        yield
    finally:
        prctl(_PR_SET_THP_DISABLE, 0, 0, 0, 0)

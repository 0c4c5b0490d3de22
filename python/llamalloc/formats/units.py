# SPDX-License-Identifier: Apache-2.0
"""Bytes, seconds and nanoseconds as people read and write them."""

from __future__ import annotations

import re

_BYTES = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def parse_bytes(text: str) -> int:
    """64KiB, 1MiB, 4096. Raises ValueError, naming what is understood."""
    match = re.fullmatch(r"(\d+)\s*([A-Za-z]*)", text.strip())
    if match is None or match[2] not in _BYTES:
        raise ValueError(f"{text!r} is not a size; write it like 64KiB, 1MiB or 4096")
    return int(match[1]) * _BYTES[match[2]]


_SECONDS = {"": 1, "s": 1, "ms": 1e-3, "m": 60, "min": 60, "h": 3600}


def parse_seconds(text: str) -> float:
    """30s, 5m, 1h, 250ms; a bare number is seconds. Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip())
    if match is None or match[2] not in _SECONDS:
        raise ValueError(f"{text!r} is not a time; write it like 30s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def bytes_text(value: float) -> str:
    """A size with three significant figures: 1.5 MiB."""
    for size, unit in _STEPS:
        if abs(value) >= size:
            return f"{_three(value / size)} {unit}"
    return f"{value:.0f} B"


def seconds_text(seconds: float) -> str:
    """A duration: 350 us, 12 ms, 4.2 s, 3 min."""
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size * (2 if unit in ("h", "min") else 1):
            return f"{_three(seconds / size)} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _three(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"

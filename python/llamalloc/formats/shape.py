# SPDX-License-Identifier: Apache-2.0
"""Whether parsed JSON has the members that its reader uses.

{"pages": [{"allocated": NUMBER}], "command?": TEXT}    `?`: may be missing
{EACH: NUMBER}                                          all members, whatever their names
"""

from __future__ import annotations

from typing import Any

NUMBER, TEXT, EACH = "a number", "a text", "*"
_LARGEST = 1 << 64


def misfit(value: Any, shape: Any, name: str = "") -> str:
    """What does not fit, in words; empty if all does."""
    if shape == NUMBER:
        good = type(value) in (int, float) and -_LARGEST < value < _LARGEST  # no NaN either
        return "" if good else f"{name} is not {NUMBER}"
    if shape == TEXT:
        return "" if isinstance(value, str) else f"{name} is not {TEXT}"
    if isinstance(shape, list):
        return _of_list(value, shape[0], name)
    return _of_object(value, shape, name)


def _of_list(value: Any, shape: Any, name: str) -> str:
    if not isinstance(value, list):
        return f"{name} is not a list"
    return _first(misfit(item, shape, f"{name}[{i}]") for i, item in enumerate(value))


def _of_object(value: Any, shape: dict[str, Any], name: str) -> str:
    if not isinstance(value, dict):
        return f"{name or 'it'} is not an object"
    dot = f"{name}." if name else ""
    if EACH in shape:
        return _first(misfit(member, shape[EACH], dot + key) for key, member in value.items())
    for key, inner in shape.items():
        known = key.removesuffix("?")
        if known not in value and known == key:
            return f"{dot}{known} is missing"
        if known in value and (fault := misfit(value[known], inner, dot + known)):
            return fault
    return ""


def _first(faults: Any) -> str:
    return next(filter(None, faults), "")

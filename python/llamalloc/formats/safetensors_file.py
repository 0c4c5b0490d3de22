# SPDX-License-Identifier: Apache-2.0
"""Reads safetensors files as hostile input: the twin of src/predict/safetensors.cc.

    | 8 bytes: N, little-endian | N bytes: JSON | tensors, raw little-endian |

The caller says which tensors a file must hold, those and no others. The package `safetensors` only
writes: it reads files that C++ refuses, such as those with tensors that are not aligned.
"""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MAX_HEADER = 16 << 20
MAX_NAME = 63  # bytes; of a tensor and of a key of the metadata
MAX_VALUE = 511  # bytes of a value that is asked for
_LENGTH = 8
_METADATA = "__metadata__"
_MEMBERS = ("dtype", "shape", "data_offsets")


class SafetensorsError(ValueError):
    """What is wrong with the file, in one line."""


class Kind(NamedTuple):
    """What a tensor must be: its type as the file spells it, numpy's, and its dimensions."""

    dtype: str
    element: type[np.generic]
    rank: int


class Header(NamedTuple):
    """`tensors`: names and descriptions in the file's order; not examined yet."""

    metadata: dict[str, str]
    tensors: list[tuple[str, Any]]
    end: int  # in the file


class _Object(list[tuple[str, Any]]):
    """A JSON object, that may repeat its keys."""


def begins(path: Path) -> bool:
    """Whether the file looks like one, as no profile and no trace does. Raises OSError."""
    with path.open("rb") as stream:
        return stream.read(_LENGTH + 1)[_LENGTH:] == b"{"


def read_header(data: bytes, keys: tuple[str, ...]) -> Header:
    """The header of the file, and those of its metadata. Raises SafetensorsError."""
    end = _header_end(data)
    try:
        rows = json.loads(data[_LENGTH:end].decode(), object_pairs_hook=_Object, parse_int=_count)
        metadata = [_known(value, keys) for name, value in rows if name == _METADATA]
    except SafetensorsError:
        raise
    except (ValueError, RecursionError) as fault:
        raise SafetensorsError("malformed JSON header") from fault
    if len(metadata) > 1:
        raise SafetensorsError(f"`{_METADATA}` twice")
    tensors = [row for row in rows if row[0] != _METADATA]
    return Header(metadata[0] if metadata else {}, tensors, end)


def read_tensors(data: bytes, header: Header, kinds: dict[str, Kind]) -> dict[str, np.ndarray]:
    """Copies of the tensors, which must be these. Raises SafetensorsError."""
    extents: dict[str, tuple[int, int]] = {}
    tensors = {}
    for name, row in header.tensors:
        if name not in kinds:
            raise SafetensorsError(f"unknown tensor `{shown(name)}`")
        if name in tensors:
            raise SafetensorsError(f"tensor `{name}` twice")
        shape, extents[name] = _described(name, row, kinds[name])
        tensors[name] = _copied(data, header.end, name, kinds[name], shape, extents[name])
    for name in kinds:
        if name not in tensors:
            raise SafetensorsError(f"tensor `{name}` is missing")
    _check_cover(len(data), header.end, [(name, *extents[name]) for name in kinds])
    return tensors


def _header_end(data: bytes) -> int:
    if len(data) < _LENGTH + 2:
        raise SafetensorsError(f"not a safetensors file ({len(data)} bytes long)")
    length = int.from_bytes(data[:_LENGTH], "little")
    if not 2 <= length <= MAX_HEADER or data[_LENGTH] != ord("{"):
        raise SafetensorsError("not a safetensors file")
    if length > len(data) - _LENGTH:
        raise SafetensorsError(_truncated(length + _LENGTH, len(data)))
    return _LENGTH + length


def _truncated(wanted: int, found: int) -> str:
    return f"truncated: header says {wanted} bytes, file has {found}"


def _count(digits: str) -> int:
    number = int(digits)
    if not digits.isdecimal() or number >= 1 << 64:
        raise ValueError
    return number


def _known(rows: Any, keys: tuple[str, ...]) -> dict[str, str]:
    """Of the metadata, those of the keys. Raises ValueError."""
    if not isinstance(rows, _Object):
        raise ValueError
    found: dict[str, str] = {}
    for key, value in rows:
        if key in found:
            raise SafetensorsError(f"metadata `{key}` twice")
        if not isinstance(value, str) or len(key.encode()) > MAX_NAME:
            raise ValueError
        length = len(value.encode())
        if key not in keys:
            continue
        if length > MAX_VALUE or "\0" in value:
            raise ValueError
        found[key] = value
    return found


def _described(name: str, row: Any, kind: Kind) -> tuple[tuple[int, ...], tuple[int, int]]:
    """(shape, extent behind the header) of one tensor."""
    members = dict(row) if isinstance(row, _Object) else {}
    for member in members:
        if member not in _MEMBERS:
            raise SafetensorsError(f"tensor `{name}`: unexpected member `{shown(member)}`")
    if len(members) != len(_MEMBERS) or len(row) != len(_MEMBERS):
        raise SafetensorsError("malformed JSON header")
    dtype, shape, offsets = (members[member] for member in _MEMBERS)
    if not isinstance(dtype, str) or not _are_counts(shape) or not _are_counts(offsets):
        raise SafetensorsError("malformed JSON header")
    if dtype != kind.dtype:
        raise SafetensorsError(f"tensor `{name}` has type {shown(dtype)}, not {kind.dtype}")
    if len(shape) != kind.rank:
        raise SafetensorsError(f"tensor `{name}` has {len(shape)} dimensions, not {kind.rank}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise SafetensorsError(f"tensor `{name}`: bad data_offsets")
    return tuple(shape), (offsets[0], offsets[1])


def _are_counts(value: Any) -> bool:
    plain = isinstance(value, list) and not isinstance(value, _Object)
    return plain and all(type(number) is int for number in value)


def _copied(
    data: bytes, end: int, name: str, kind: Kind, shape: tuple[int, ...], extent: tuple[int, int]
) -> np.ndarray:
    """An empty array where the file ends before."""
    element = np.dtype(kind.element).newbyteorder("<")
    needed, given = element.itemsize, extent[1] - extent[0]
    too_large = f"tensor `{name}`: its shape is too large"
    for length in shape:
        needed *= length
        if needed >= 1 << 64:
            raise SafetensorsError(too_large)
    if needed != given:
        raise SafetensorsError(
            f"tensor `{name}`: its shape needs {needed} bytes, data_offsets give {given}"
        )
    if end + extent[1] > len(data):
        return np.zeros(0, kind.element)
    if (end + extent[0]) % element.itemsize != 0:
        raise SafetensorsError(f"tensor `{name}` is not aligned to {element.itemsize} bytes")
    found = np.frombuffer(data, element, needed // element.itemsize, end + extent[0])
    try:
        return found.astype(kind.element).reshape(shape)
    except (ValueError, OverflowError):  # no elements, and a length that numpy cannot hold
        raise SafetensorsError(too_large) from None


def _check_cover(size: int, end: int, extents: list[tuple[str, int, int]]) -> None:
    last = max((to for _, _, to in extents), default=0)
    if end + last > size:
        raise SafetensorsError(_truncated(end + last, size))
    if end + last < size:
        raise SafetensorsError(f"{size - end - last} bytes after the last tensor")
    for (a, start, to), (b, other, other_to) in permutations(extents, 2):
        if start <= other < to and other_to > other:
            raise SafetensorsError(f"tensors `{a}` and `{b}` overlap")
    gap = last - sum(to - start for _, start, to in extents)
    if gap:
        raise SafetensorsError(f"a gap of {gap} bytes between tensors")


def shown(text: str) -> str:
    """`text` as a message may hold it: printable."""
    return re.sub(r"[^\x20-\x7e]", "?", text)

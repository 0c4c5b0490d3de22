# SPDX-License-Identifier: Apache-2.0
"""State files, contracts/learned_state.md: the twin of src/policy/learned_state.h."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

MAGIC = b"llmlearn"
VERSION = 1
CLASSES = 7  # le_10ms to gt_1000s
MAX_BYTES = 1 << 20
MAX_DEPTH = 64
NO_FRAMES = 0x6C6C6D6C6561726E

_HEADER = struct.Struct("<8sIIQ32sIIIIBBHI")
_NODE = struct.Struct(f"<QBB{CLASSES}H{CLASSES}HH")
_TAIL = struct.Struct("<I")
MAX_NODES = (MAX_BYTES - _HEADER.size - _TAIL.size) // _NODE.size
_WORD = (1 << 64) - 1


class StateError(ValueError):
    """A state file that cannot be used. The message names the file and the cause."""


class GateVerdict(IntEnum):
    """What the gate decided on keeping lifetimes apart."""

    UNDECIDED = 0
    OFF = 1
    ON = 2


@dataclass(frozen=True)
class Gate:
    """Footprint / live memory without and with separation, in permille; 0: not measured."""

    verdict: GateVerdict = GateVerdict.UNDECIDED
    rounds: int = 0
    blind_permille: int = 0
    placed_permille: int = 0
    runs: int = 0


@dataclass(frozen=True)
class Node:
    """Sampled lifetimes of one context. `deaths` and `young`: by class, le_10ms first."""

    key: int
    depth: int
    unseen: int = 0
    deaths: tuple[int, ...] = (0,) * CLASSES
    young: tuple[int, ...] = (0,) * CLASSES
    elders: int = 0

    @property
    def samples(self) -> int:
        """Deaths and young."""
        return sum(self.deaths) + sum(self.young)


@dataclass(frozen=True)
class LearnedState:
    """All that a state file holds. `program`: hash of a build-id; nodes ascend by key."""

    program: int
    name: str
    runs: int = 0
    gate: Gate = field(default_factory=Gate)
    nodes: tuple[Node, ...] = ()


def hash_build_id(build_id: bytes) -> int:
    """The `build` of a frame; 0 for no build-id."""
    value = 0xCBF29CE484222325
    for byte in build_id:
        value = (value ^ byte) * 0x100000001B3 & _WORD
    return value | 1 if build_id else 0


def key_of(frames: Iterable[tuple[int, int]]) -> int:
    """The key of frames (build, offset), the innermost first."""
    key = NO_FRAMES
    for frame in frames:
        for word in frame:
            key = (key ^ word) * 0xFF51AFD7ED558CCD & _WORD
            key ^= key >> 32
    return key


def is_state_file(path: Path) -> bool:
    """Whether the file begins as one. Raises OSError."""
    with path.open("rb") as stream:
        return stream.read(len(MAGIC)) == MAGIC


def write(state: LearnedState, path: Path) -> None:
    """Writes the file, for the user only; it appears whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.unlink(missing_ok=True)
        partial.touch(0o600, exist_ok=False)
        partial.write_bytes(pack(state))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def pack(state: LearnedState) -> bytes:
    """The bytes of the file. Raises StateError for what the format does not hold."""
    gate = state.gate
    figures = (gate.runs, gate.blind_permille, gate.placed_permille, gate.verdict, gate.rounds)
    name = state.name.encode("ascii", "replace")
    head = (MAGIC, VERSION, len(state.nodes), state.program, name, state.runs, *figures, 0, 0)
    try:
        data = _HEADER.pack(*head) + b"".join(_packed(node) for node in state.nodes)
    except struct.error as fault:
        raise StateError(f"state of {state.name}: {fault}") from fault
    data += _TAIL.pack(zlib.crc32(data))
    _unpacked(data, f"state of {state.name}")
    return data


def _packed(node: Node) -> bytes:
    return _NODE.pack(node.key, node.depth, node.unseen, *node.deaths, *node.young, node.elders)


def read(path: Path) -> LearnedState:
    """The state in file `path`. Raises StateError for what learned_state.md does not allow."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as fault:
        raise StateError(f"{path}: {(fault.strerror or str(fault)).lower()}") from fault
    return _unpacked(data, str(path))


def _unpacked(data: bytes, what: str) -> LearnedState:
    nodes = _checked_nodes(data, what)
    head = _HEADER.unpack_from(data)
    program, name, runs, gate_runs, blind, placed, verdict, rounds = head[3:11]
    text = name.split(b"\0")[0]
    printable = all(0x20 < byte < 0x7F and byte != ord("/") for byte in text)
    sane = 0 < len(text) < len(name) and printable and name == text.ljust(len(name), b"\0")
    if not sane or verdict > max(GateVerdict) or any(head[11:]):
        raise StateError(f"{what}: damaged, its header is not sane")
    gate = Gate(GateVerdict(verdict), rounds, blind, placed, gate_runs)
    return LearnedState(program, text.decode("ascii"), runs, gate, nodes)


def _checked_nodes(data: bytes, what: str) -> tuple[Node, ...]:
    if data[: len(MAGIC)] != MAGIC:
        raise StateError(f"{what}: not a state file")
    if len(data) < _HEADER.size:
        raise StateError(f"{what}: damaged, truncated")
    version, count = _HEADER.unpack_from(data)[1:3]
    if version != VERSION:
        raise StateError(
            f"{what}: version {version}, not {VERSION}; read it with its own llamalloc"
        )
    if count > MAX_NODES or len(data) != _HEADER.size + count * _NODE.size + _TAIL.size:
        raise StateError(f"{what}: damaged, {len(data)} bytes do not hold {count} nodes")
    if zlib.crc32(data[: -_TAIL.size]) != _TAIL.unpack(data[-_TAIL.size :])[0]:
        raise StateError(f"{what}: damaged, the checksum does not match")
    rows = _NODE.iter_unpack(data[_HEADER.size : -_TAIL.size])
    nodes = tuple(Node(*row[:3], row[3:10], row[10:17], row[17]) for row in rows)
    ascending = all(a.key < b.key for a, b in pairwise(nodes))
    if not ascending or not all(_is_sane(node) for node in nodes):
        raise StateError(f"{what}: damaged, its nodes are not sane")
    return nodes


def _is_sane(node: Node) -> bool:
    return 1 <= node.depth <= MAX_DEPTH and (node.samples > 0 or node.elders > 0)

# SPDX-License-Identifier: Apache-2.0
"""State files, contracts/learned_state.md: the twin of src/learning/learned_state.h."""

from __future__ import annotations

import struct
import zlib
from dataclasses import astuple, dataclass, field
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

from llamalloc.formats import regular_file

MAGIC = b"llmlearn"
VERSION = 2
READABLE = (1, VERSION)  # of version 1, nodes end before `parent`, and there are no frames
READABLE_TEXT = " or ".join(map(str, READABLE))
CLASSES = 7  # le_10ms to gt_1000s
MAX_BYTES = 1 << 20
MAX_LEVEL = 65  # the size, and the frames of a stack trace
MAX_REVERSALS = 5
MAX_PERMILLE = 1_000_000
MAX_ROUNDS = 1 << 20
NO_FIGURE = (1 << 32) - 1
MAX_PEAK = (1 << 16) - 1  # MiB
ROOT = 0x6C6C616D616C6C6F

_DIFFERS = 0x80
_GATE_NUMBERS = 13

_HEADER = struct.Struct("<8sIIQ32sIBBH5I5I")
_OLD_NODE = struct.Struct(f"<QBB{CLASSES}H{CLASSES}HH")
_NODE = struct.Struct(_OLD_NODE.format + "QQ")
_FRAME = struct.Struct("<QQIIIHHII")
_TAIL = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_NO_NODES = _HEADER.size + _TAIL.size + _CHECKSUM.size
_WORD = (1 << 64) - 1


class StateError(ValueError):
    """A state file that cannot be used. The message names the file and the cause."""


def _damaged(what: str, cause: str) -> StateError:
    return StateError(f"{what}: damaged, {cause}; the next run of its program replaces it")


class GateVerdict(IntEnum):
    """What the gate decided on placing objects by lifetime."""

    UNTRIED = 0
    ON_TRIAL = 1
    HELPS = 2
    FAILS = 3
    MISTAKEN = 4  # predictions did not hold; nothing was measured


@dataclass(frozen=True)
class GateWaste:
    """Free bytes in used huge pages (`high`, `low`), in permille of the load's peak of live bytes.

    `high`: at high load, or NO_FIGURE. `low`: in troughs, whose live bytes are `depth`.
    `ratio`: held by live bytes in troughs, in permille. `rounds`: 0: nothing is known.
    """

    rounds: int = 0
    high: int = NO_FIGURE
    low: int = 0
    depth: int = 0
    ratio: int = 0


@dataclass(frozen=True)
class Gate:
    """The verdict, how often placement was given up, and what was measured without and with it.

    `peak`: MiB of live bytes, of the loads that were measured; 0: not known.
    """

    verdict: GateVerdict = GateVerdict.UNTRIED
    reversals: int = 0
    blind: GateWaste = field(default_factory=GateWaste)
    placed: GateWaste = field(default_factory=GateWaste)
    peak: int = 0


def text_of_gate(gate: Gate) -> str:
    """The record as profiles and model files hold it: thirteen numbers (model_format.md)."""
    head = (int(gate.verdict), gate.reversals, gate.peak)
    return ",".join(map(str, (*head, *astuple(gate.blind), *astuple(gate.placed))))


def gate_of_text(text: str) -> Gate | None:
    """The twin of GateKept::read (src/learning/gate.cc). None: it is no valid record."""
    words = text.split(",")
    if len(words) != _GATE_NUMBERS or not all(w.isdecimal() and len(w) <= 10 for w in words):
        return None
    verdict, reversals, peak, *figures = map(int, words)
    if verdict > max(GateVerdict) or peak > MAX_PEAK:
        return None
    blind, placed = GateWaste(*figures[:5]), GateWaste(*figures[5:])
    gate = Gate(GateVerdict(verdict), reversals, blind, placed, peak)
    return gate if _is_sane_gate(gate) else None


@dataclass(frozen=True)
class Node:
    """Sampled lifetimes of a call site (level 1), one size there (2), its callers (3 and more).

    `differs`: lifetimes depend on what the next level tells apart. `deaths` and `young`: by class,
    le_10ms first. `parent`, `word`: extend_key(parent, word) is the key; 0, 0: not known.
    """

    key: int
    level: int
    differs: bool = False
    unseen: int = 0
    deaths: tuple[int, ...] = (0,) * CLASSES
    young: tuple[int, ...] = (0,) * CLASSES
    elders: int = 0
    parent: int = 0
    word: int = 0

    @property
    def samples(self) -> int:
        """Deaths and young."""
        return sum(self.deaths) + sum(self.young)


@dataclass(frozen=True)
class Frame:
    """A frame of the nodes, by the shape of the function around it (learned_state.md, Frames)."""

    code: int
    function: int
    before: int = 0
    after: int = 0
    callee: int = 0
    ordinal: int = 0
    calls: int = 0
    offset: int = 0
    build: int = 0


@dataclass(frozen=True)
class LearnedState:
    """All that a state file holds.

    `program`: hash of a build-id; nodes ascend by key, frames by code. `modules`: a hash of the
    builds that were loaded; 0: not known.
    """

    program: int
    name: str
    runs: int = 0
    gate: Gate = field(default_factory=Gate)
    nodes: tuple[Node, ...] = ()
    frames: tuple[Frame, ...] = ()
    modules: int = 0


def hash_build_id(build_id: bytes) -> int:
    """The `build` of a frame; 0 for no build-id."""
    value = 0xCBF29CE484222325
    for byte in build_id:
        value = (value ^ byte) * 0x100000001B3 & _WORD
    return value | 1 if build_id else 0


def code_key(build: int, offset: int) -> int:
    """The number of a frame. `offset`: of its return address from the module's lowest address."""
    value = (build ^ offset) * 0xFF51AFD7ED558CCD & _WORD
    return (value ^ value >> 32) | 1


def key_of(site: int, *further: int) -> int:
    """The key of a node: `site` and callers by code_key, between them the size bucket."""
    key = None
    for word in (site, *further):
        key = extend_key(key, word)
    return key


def extend_key(key: int | None, word: int) -> int:
    """The key of a node one level deeper; None: of the first level."""
    key = ((ROOT if key is None else key) ^ word) * 0x9E3779B97F4A7C15 & _WORD
    return key ^ key >> 29


def is_state_file(path: Path) -> bool:
    """Whether the file begins as one. Raises OSError."""
    with regular_file.opened(path) as stream:
        return stream.read(len(MAGIC)) == MAGIC


def pack(state: LearnedState) -> bytes:
    """The bytes of the file. Raises StateError for what the format does not hold."""
    gate = state.gate
    figures = (gate.verdict, gate.reversals, gate.peak, *astuple(gate.blind), *astuple(gate.placed))
    name = state.name.encode("ascii", "replace")
    head = (MAGIC, VERSION, len(state.nodes), state.program, name, state.runs, *figures)
    try:
        rows = [_packed(node) for node in state.nodes]
        rows += [_FRAME.pack(*astuple(frame)) for frame in state.frames]
        data = _HEADER.pack(*head) + b"".join(rows) + _TAIL.pack(state.modules, len(state.frames))
    except struct.error as fault:
        raise StateError(f"state of {state.name}: {fault}") from fault
    data += _CHECKSUM.pack(zlib.crc32(data))
    if len(data) > MAX_BYTES:
        raise StateError(f"state of {state.name}: larger than 1 MiB")
    _unpacked(data, f"state of {state.name}")
    return data


def _packed(node: Node) -> bytes:
    level = node.level | (_DIFFERS if node.differs else 0)
    counts = (*node.deaths, *node.young, node.elders)
    return _NODE.pack(node.key, level, node.unseen, *counts, node.parent, node.word)


def _node(row: tuple[int, ...]) -> Node:
    level, differs = row[1] & ~_DIFFERS, row[1] & _DIFFERS != 0
    return Node(row[0], level, differs, row[2], row[3:10], row[10:17], *row[17:])


def read(path: Path) -> LearnedState:
    """The state in file `path`. Raises StateError for what learned_state.md does not allow."""
    try:
        with regular_file.opened(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as fault:
        raise StateError(f"{path}: {(fault.strerror or str(fault)).lower()}") from fault
    return _unpacked(data, str(path))


def _unpacked(data: bytes, what: str) -> LearnedState:
    nodes, frames, modules = _checked_rows(data, what)
    head = _HEADER.unpack_from(data)
    program, name, runs, verdict, reversals, peak = head[3:9]
    text = name.split(b"\0")[0]
    printable = all(0x20 < byte < 0x7F and byte != ord("/") for byte in text)
    sane = 0 < len(text) < len(name) and printable and name == text.ljust(len(name), b"\0")
    if not sane or verdict > max(GateVerdict):
        raise _damaged(what, "its header is not sane")
    gate = Gate(
        GateVerdict(verdict), reversals, GateWaste(*head[9:14]), GateWaste(*head[14:]), peak
    )
    if not _is_sane_gate(gate):
        raise _damaged(what, "its header is not sane")
    return LearnedState(program, text.decode("ascii"), runs, gate, nodes, frames, modules)


def _is_sane_gate(gate: Gate) -> bool:
    tried = gate.verdict != GateVerdict.UNTRIED
    return (
        gate.reversals <= MAX_REVERSALS
        and _is_sane_waste(gate.blind)
        and _is_sane_waste(gate.placed)
        and not (tried and gate.blind.rounds == 0)
    )


def _is_sane_waste(waste: GateWaste) -> bool:
    high = 0 if waste.high == NO_FIGURE else waste.high
    figures = (high, waste.low, waste.depth, waste.ratio)
    return waste.rounds <= MAX_ROUNDS and max(figures) <= MAX_PERMILLE


def _checked_rows(data: bytes, what: str) -> tuple[tuple[Node, ...], tuple[Frame, ...], int]:
    if data[: len(MAGIC)] != MAGIC:
        raise StateError(f"{what}: not a state file")
    if len(data) < _HEADER.size:
        raise _damaged(what, "truncated")
    version, count = _HEADER.unpack_from(data)[1:3]
    if version not in READABLE:
        raise StateError(
            f"{what}: version {version}, not {READABLE_TEXT}; read it with its own llamalloc"
        )
    node, modules, frames, tail = _OLD_NODE, 0, 0, 0
    if version == VERSION and len(data) >= _NO_NODES:
        node, tail = _NODE, _TAIL.size
        modules, frames = _TAIL.unpack_from(data, len(data) - _CHECKSUM.size - tail)
    end = _HEADER.size + count * node.size
    if len(data) != end + frames * _FRAME.size + tail + _CHECKSUM.size:
        raise _damaged(what, f"{len(data)} bytes do not hold {count} nodes and {frames} frames")
    if zlib.crc32(data[: -_CHECKSUM.size]) != _CHECKSUM.unpack(data[-_CHECKSUM.size :])[0]:
        raise _damaged(what, "the checksum does not match")
    nodes = tuple(_node(row) for row in node.iter_unpack(data[_HEADER.size : end]))
    shapes = data[end : end + frames * _FRAME.size]
    found = tuple(Frame(*row) for row in _FRAME.iter_unpack(shapes))
    ascending = all(a.key < b.key for a, b in pairwise(nodes))
    ascending = ascending and all(a.code < b.code for a, b in pairwise(found))
    if not ascending or not all(_is_sane(node) for node in nodes):
        raise _damaged(what, "its nodes are not sane")
    return nodes, found, modules


def _is_sane(node: Node) -> bool:
    is_counted = node.samples > 0 or node.elders > 0
    return 1 <= node.level <= MAX_LEVEL and is_counted and _has_sane_path(node)


def _has_sane_path(node: Node) -> bool:
    if node.parent == 0:
        return node.word == 0
    is_root = node.parent == ROOT
    return is_root == (node.level == 1) and extend_key(node.parent, node.word) == node.key

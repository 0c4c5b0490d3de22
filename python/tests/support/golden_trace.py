# SPDX-License-Identifier: Apache-2.0
"""contracts/trace_format.md a second time, in Python: builds and reads small traces, slowly.

`observed()` and `resolved()` are the golden files; EVENTS is what both read back as.
"""

import struct
from collections.abc import Iterator

WALL_NS = 1_700_000_000_000_000_000
COMMAND = ["./server", "--port", "7000"]
MODULES = [(0x400000, 0x500000, 0x1000, bytes.fromhex("abcdef01"), "/usr/bin/server")]
FRAMES = [0x401000, 0x402000, 0x7F00]
STACKS = [[0, 1], [2, 1]]
NAMES = [(0, 1, "make_session"), (1, 1, "main"), (2, 0, "?")]

ALLOCATE, FREE, RESIZE_BEGIN, RESIZE_END, RESIZE_FAILED, THREAD = range(6)
# (operation, time, address, size, stack, alignment_log2)
STREAMS = {
    0: [
        (ALLOCATE, 100, 0x10000, 40, 1, 4),
        (ALLOCATE, 250, 0x10040, 5000, 2, 12),
        (RESIZE_BEGIN, 400, 0x10000, 0, 0, 0),
        (RESIZE_END, 450, 0x20000, 80, 2, 4),
        (FREE, 900, 0x10040, 0, 0, 0),
        (RESIZE_BEGIN, 1000, 0x20000, 0, 0, 0),
        (RESIZE_FAILED, 1010, 0x20000, 0, 0, 0),
    ],
    7: [
        (ALLOCATE, 420, 0x10000, 16, 0, 4),  # stream 0 gave the address up at 400
        (FREE, 950, 0x10000, 0, 0, 0),
        (ALLOCATE, 960, 0x10040, 1, 1, 40),  # and this one at 900
        (FREE, 1100, 0x10040, 0, 0, 0),
    ],
}
# (time, object, size, stack, thread, kind, alignment_log2)
EVENTS = [
    (100, 0, 40, 1, 0, 0, 4),
    (250, 1, 5000, 2, 0, 0, 12),
    (420, 2, 16, 0, 1, 0, 4),
    (450, 0, 80, 2, 0, 1, 4),
    (900, 1, 0, 0, 0, 2, 0),
    (950, 2, 0, 0, 1, 2, 0),
    (960, 3, 1, 1, 1, 0, 40),
    (1100, 3, 0, 0, 1, 2, 0),
]
OBSERVED, RESOLVED, FRAME, STACK, MODULE, NAME, ABOUT, END = range(1, 9)
_HEADER = "<IBBHIIIIQQ"
_MASK = (1 << 64) - 1


def checksum(*parts: bytes) -> int:
    state = 0x2545F4914F6CDD1D
    for part in parts:
        for start in range(0, len(part), 8):
            word = int.from_bytes(part[start : start + 8], "little")
            state = (state ^ word) * 0x9E3779B97F4A7C15 & _MASK
            state ^= state >> 29
    return (state ^ state >> 32) & 0xFFFFFFFF


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def difference(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def text(value: bytes) -> bytes:
    return varint(len(value)) + value


def chunk(kind: int, payload: bytes, count: int = 1, stream: int = 0, times=(0, 0)) -> bytes:
    size = len(payload)
    head = struct.pack(_HEADER, 0x4B43544C, kind, 0, 0, size, size, count, stream, *times)
    head += struct.pack("<I", checksum(head))
    return head + struct.pack("<I", checksum(head, payload)) + payload


def file_header() -> bytes:
    head = b"llmtrace" + struct.pack("<IIQI", 1, 4711, WALL_NS, 0)
    return head + struct.pack("<I", checksum(head))


def tables() -> bytes:
    modules = [
        b"".join([varint(i), *map(varint, m[:3]), text(m[3]), text(m[4].encode())])
        for i, m in enumerate(MODULES)
    ]
    frames = [varint(i) + varint(address) for i, address in enumerate(FRAMES)]
    stacks = [
        varint(i) + varint(len(s)) + b"".join(map(varint, s)) for i, s in enumerate(STACKS, 1)
    ]
    names = [varint(f) + varint(m) + text(n.encode()) for f, m, n in NAMES]
    kinds = ((MODULE, modules), (FRAME, frames), (STACK, stacks), (NAME, names))
    return b"".join(chunk(kind, b"".join(rows), len(rows)) for kind, rows in kinds)


def first_byte(operation: int, alignment: int) -> bytes:
    if alignment < 31:
        return bytes([operation << 5 | alignment])
    return bytes([operation << 5 | 31, alignment])


def stream(number: int) -> bytes:
    records = STREAMS[number]
    out = bytearray(varint(number))
    time, place = records[0][1], 0
    for operation, when, address, size, stack, alignment in records:
        out += first_byte(operation, alignment) + varint(when - time)
        out += difference(address // 16 - place)
        if operation in (ALLOCATE, RESIZE_END):
            out += varint(size) + varint(stack)
        time, place = when, address // 16
    return chunk(OBSERVED, bytes(out), len(records), number, (records[0][1], records[-1][1]))


def observed() -> bytes:
    about = b"".join(word.encode() + b"\0" for word in COMMAND)
    events = b"".join(stream(number) for number in STREAMS)
    return file_header() + chunk(ABOUT, about) + tables() + events + chunk(END, b"")


def resolved() -> bytes:
    out = bytearray(varint(0) + varint(0))
    time, thread, following = EVENTS[0][0], 0, 0
    for when, number, size, stack, owner, kind, alignment in EVENTS:
        if owner != thread:
            out += first_byte(THREAD, 0) + varint(owner)
        operation = (ALLOCATE, RESIZE_END, FREE)[kind]
        out += first_byte(operation, alignment) + varint(when - time)
        out += b"" if operation == ALLOCATE else varint(following - number)
        out += b"" if operation == FREE else varint(size) + varint(stack)
        following += operation == ALLOCATE
        time, thread = when, owner
    events = chunk(RESOLVED, bytes(out), len(EVENTS), 0, (EVENTS[0][0], EVENTS[-1][0]))
    about = chunk(ABOUT, " ".join(COMMAND).encode())
    return file_header() + about + tables() + events + chunk(END, b"")


def chunks(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(offset, kind, count, payload) of a trace whose payloads are raw; asserts every checksum."""
    assert data[:8] == b"llmtrace" and checksum(data[:28]) == int.from_bytes(data[28:32], "little")
    at = 32
    while at < len(data):
        head, payload = data[at : at + 48], data[at + 48 :]
        magic, kind, encoding, _, stored, raw, count, _, _, _ = struct.unpack(_HEADER, head[:40])
        assert magic == 0x4B43544C and encoding == 0 and stored == raw
        payload = payload[:stored]
        sums = struct.unpack("<II", head[40:])
        assert sums == (checksum(head[:40]), checksum(head[:44], payload))
        yield at, kind, count, payload
        at += 48 + stored

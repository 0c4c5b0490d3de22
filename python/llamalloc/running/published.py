# SPDX-License-Identifier: Apache-2.0
"""Reads the counters of a process that runs under llamalloc, from outside
(contracts/published_block.md).

    /proc/PID/maps -> the file with our ELF note -> the block -> rows: name, address, shape

The process takes no part in it. The kernel decides who may read, as for a debugger.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from llamalloc.formats import contracts
from llamalloc.running.procmem import PROC, read_text

HUGE_PAGE = 2 << 20
BLOCK = 8192
SMALL_PAGE = 4096
_MAGIC = b"llamaps\0"
_NOTE = (b"llamalloc\0", 1)
_HEADER = struct.Struct("=8sII")
_ROW = struct.Struct("=28sIQIIII")
_MOST_ROWS = 1000
_MOST_BYTES = 1 << 20  # of one row
_NUMBER, _TEXT, _POINTER = range(3)
_PT_LOAD, _PT_NOTE = 1, 4


class PublishedError(RuntimeError):
    """The process cannot be read; the message says why and what to do."""


class NotUnderUsError(PublishedError):
    """The process does not run under llamalloc, or it has not started yet."""


@dataclass(frozen=True)
class Published:
    """What the block leads to: numbers (a list where there are several) and texts, by name."""

    pid: int
    numbers: dict[str, list[int]]
    texts: dict[str, list[str]]

    def number(self, name: str) -> int:
        return self.numbers.get(name, [0])[0]

    def text(self, name: str) -> str:
        return self.texts.get(name, [""])[0]

    def option(self, name: str) -> int | str | None:
        """As it holds now; None: the library does not tell."""
        key = f"o.{name}"
        if key in self.texts:
            return self.texts[key][0]
        return self.numbers[key][0] if key in self.numbers else None

    @property
    def gate(self) -> str:
        """What the gate decided, in a sentence; empty if nothing is learned."""
        sentences = self.texts.get("gate.sentences", [""])
        return sentences[self.number("gate.valid") % len(sentences)]


def read(pid: int) -> Published:
    """The published values of a process. Raises PublishedError."""
    try:
        with (PROC / str(pid) / "mem").open("rb", buffering=0) as memory:
            return _read_block(pid, memory.fileno(), _find_block(pid, memory.fileno()))
    except PermissionError:
        raise PublishedError(_why_not(pid)) from None
    except (FileNotFoundError, ProcessLookupError):
        raise PublishedError(f"{pid}: no such process") from None
    except OSError as error:
        raise PublishedError(f"{pid}: cannot be read: {error.strerror}") from None
    except (OverflowError, ValueError) as error:
        raise PublishedError(f"{pid}: its counters make no sense: {error}") from None


def processes() -> Iterator[Published | PublishedError]:
    """Every process under llamalloc; those that look like it and cannot be read as errors."""
    for folder in sorted(PROC.glob("[0-9]*"), key=lambda p: int(p.name)):
        try:
            yield read(int(folder.name))
        except NotUnderUsError:
            continue
        except PublishedError as error:
            with contextlib.suppress(OSError):  # nobody tells whether it is one of ours
                if any("llamalloc" in path for _, path in _candidates(int(folder.name))):
                    yield error


# These the library finds when somebody asks it.
_ASKED = {"metadata", "resident", "mapped", "realized_fragmentation", "average_fragmentation"}


def figures(at: Published) -> dict[str, int]:
    """The statistics of stats.def that the counters give, in the units of that table. Those of
    _ASKED are not among them."""
    n = at.number
    stats = {k.removeprefix("stat."): v[0] for k, v in at.numbers.items() if k.startswith("stat.")}
    stats = {name: value for name, value in stats.items() if name not in _ASKED}
    used = (n("pages.level") & 0xFFFFFFFF) * BLOCK
    by_group = groups(at)
    taken = sum(g["slots"] for g in by_group)
    in_spans = sum(g["slots"] + g["free_slots"] for g in by_group)
    kept_last = (n("direct.last") >> 48) * SMALL_PAGE
    direct = max(n("direct.bytes") - kept_last, 0)
    kept = n("direct.kept_bytes") + kept_last
    huge = n("pages.gets_huge") and n("pages.wants_huge")
    pages = (n("pages.in_use") + n("pages.empty")) * HUGE_PAGE
    backed = max(pages - n("pages.unbacked_bytes"), 0)
    return stats | {
        "allocated": max(used + taken - in_spans, 0) + direct,
        "active": used + direct,
        "backed": backed + direct + kept,
        "reserved": n("pages.reserved_bytes"),
        "retained": max(n("pages.reserved_bytes") - pages, 0),
        "huge_pages_used": n("pages.in_use"),
        "huge_pages_broken": n("pages.broken") if huge else n("pages.in_use"),
        "huge_pages_empty": n("pages.empty"),
        "mapped_directly": direct,
        "thread_caches": n("threads"),
    }


def groups(at: Published) -> list[dict[str, int | str]]:
    """Of each page group: its huge pages, and bytes of slots in use and free."""
    rows: list[dict[str, int | str]] = []
    names = [group.name for group in contracts.page_groups()]
    pages, sizes = at.numbers.get("groups.pages", []), at.numbers.get("classes.size", [])
    classes, kinds = max(len(sizes), 1), len(pages) // len(names)
    for g, name in enumerate(names):
        slots = free = 0
        for b, (taken, spans) in enumerate(
            zip(at.numbers.get("bins.taken", []), at.numbers.get("bins.spans", []), strict=False)
        ):
            taken = 0 if taken >> 63 else taken  # for a moment less was taken than given back
            if b // classes % len(names) == g:
                kind = "classes" if b < classes * len(names) else "samples"
                whole = spans * at.numbers[f"{kind}.blocks"][b % classes] * BLOCK
                slots += taken * sizes[b % classes]
                free += max(whole - taken * sizes[b % classes], 0)
        in_use = sum(pages[kinds * g : kinds * (g + 1)])
        rows.append({"group": name, "pages": in_use, "slots": slots, "free_slots": free})
    return rows


def _why_not(pid: int) -> str:
    if os.geteuid() == 0:
        return f"{pid}: not even root may look at it from here; ask on the host, not in a container"
    if read_text("/proc/sys/kernel/yama/ptrace_scope", "0") != "0":
        return f"{pid}: this system lets only root look at other processes (ptrace_scope); use sudo"
    return f"{pid}: belongs to another user, or has raised privileges; use sudo"


# ----- The block -----


def _read_block(pid: int, memory: int, address: int) -> Published:
    magic, version, count = _HEADER.unpack(_at(memory, address, _HEADER.size))
    if magic != _MAGIC:
        raise NotUnderUsError(f"{pid}: llamalloc has not started there yet")
    if version != 1 or count > _MOST_ROWS:
        raise PublishedError(f"{pid}: runs a llamalloc that this command does not know")
    numbers: dict[str, list[int]] = {}
    texts: dict[str, list[str]] = {}
    table = _at(memory, address + _HEADER.size, count * _ROW.size)
    for name, kind, start, width, n, stride, _ in _ROW.iter_unpack(table):
        key = name.split(b"\0")[0].decode("ascii", "replace")
        if key in numbers or key in texts or width + max(n, 1) * stride > _MOST_BYTES:
            continue
        if kind == _NUMBER and width in (1, 2, 4, 8):
            numbers[key] = _numbers(memory, start, width, n, stride)
        elif kind == _TEXT:
            texts[key] = [_text(_at(memory, start + i * stride, width)) for i in range(n)]
        elif kind == _POINTER:
            pointer = int.from_bytes(_at(memory, start, 8), "little")
            texts[key] = [_text(_at(memory, pointer, 200, least=1))]
    return Published(pid, numbers, texts)


def _numbers(memory: int, start: int, width: int, count: int, stride: int) -> list[int]:
    data = _at(memory, start, (count - 1) * stride + width)
    return [int.from_bytes(data[i * stride : i * stride + width], "little") for i in range(count)]


def _text(data: bytes) -> str:
    return data.split(b"\0")[0].decode("utf-8", "replace")


def _at(memory: int, address: int, size: int, least: int | None = None) -> bytes:
    data = os.pread(memory, size, address)
    if len(data) < (size if least is None else least):
        raise OSError(5, "its memory changed meanwhile")
    return data


# ----- The note -----


def _candidates(pid: int) -> list[tuple[int, str]]:
    """(start, path) of the files that may hold the library: those named so, then the program."""
    lines = (PROC / str(pid) / "maps").read_text(errors="surrogateescape").splitlines()
    columns = [line.split(maxsplit=5) for line in lines]
    starts = [
        (int(c[0].split("-")[0], 16), c[5])
        for c in columns
        if len(c) == 6 and int(c[2], 16) == 0 and c[5].startswith("/")
    ]
    ours = [s for s in starts if "llamalloc" in s[1]]
    return ours + starts[:1]


def _find_block(pid: int, memory: int) -> int:
    for start, _ in _candidates(pid):
        try:
            address = _block_of(memory, start)
        except (OSError, OverflowError, ValueError, struct.error):
            continue
        if address is not None:
            return address
    raise NotUnderUsError(
        f"{pid}: does not run under llamalloc; start it by: llamalloc run -- PROGRAM"
    )


def _block_of(memory: int, start: int) -> int | None:
    """The address of the block by the note of the ELF file that is loaded at `start`."""
    head = _at(memory, start, 64)
    if head[:5] != b"\x7fELF\x02":
        return None
    offset, size, count = struct.unpack_from("=Q", head, 32) + struct.unpack_from("=HH", head, 54)
    table = _at(memory, start + offset, size * count)
    headers = [struct.unpack_from("=IIQQQQQQ", table, i * size) for i in range(count)]
    loads = [h[3] for h in headers if h[0] == _PT_LOAD]
    if not loads:
        return None
    bias = start - min(loads) // SMALL_PAGE * SMALL_PAGE
    for kind, _, _, address, _, length, *_rest in headers:
        if kind == _PT_NOTE:
            found = _note_in(_at(memory, bias + address, min(length, 1 << 16)))
            if found is not None:
                at, distance = found
                return bias + address + at + distance
    return None


def _note_in(notes: bytes) -> tuple[int, int] | None:
    """(offset of the content, number in it) of our note."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("=III", notes, at)
        name = notes[at + 12 : at + 12 + name_size]
        content = at + 12 + (name_size + 3) // 4 * 4
        if (name, kind) == _NOTE and size == 4:
            return content, struct.unpack_from("=i", notes, content)[0]
        at = content + (size + 3) // 4 * 4
    return None


def command_of(pid: int) -> str:
    """The program and its arguments, as they were started."""
    try:
        words = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return "?"
    return b" ".join(words).decode("utf-8", "replace").strip() or "?"

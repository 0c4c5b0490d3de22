# SPDX-License-Identifier: Apache-2.0
"""A small ELF reader: what `run` and `doctor` must know of a program before they preload into it.

Reads the program headers (interpreter, build-id), the dynamic section (needed libraries), the
symbol tables (who defines malloc), and the notes of USDT probes. Source: the System V gABI,
chapters 4 and 5. Every offset is checked; any fault is one ElfError. 64-bit little-endian files
only, other ELF files are told by `machine`.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = b"\x7fELF"
X86_64, AARCH64 = 62, 183
_LOAD, _DYNAMIC, _INTERP, _NOTE = 1, 2, 3, 4
_BUILD_ID = (3, b"GNU\0")  # type and name of the note
_PROBE = (3, b"stapsdt\0")
_SECTION_NOTE = 7
_NEEDED, _STRTAB = 1, 5
_SYMTAB, _DYNSYM = 2, 11


class ElfError(ValueError):
    """The file is not an ELF file, or a damaged one; the message says which."""


@dataclass(frozen=True)
class Elf:
    """Facts of one file. `interpreter` None: static. `defined`: functions it defines, by name."""

    bits: int
    machine: int
    interpreter: str | None = None
    needed: tuple[str, ...] = ()
    defined: frozenset[str] = field(default_factory=frozenset)
    has_symtab: bool = False
    build_id: bytes = b""

    @property
    def is_static(self) -> bool:
        """No program interpreter: the loader never runs, so nothing can be preloaded."""
        return self.interpreter is None


def read(path: Path) -> Elf:
    """Facts of the ELF file at `path`. Raises ElfError, or OSError if it cannot be read."""
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise ElfError("not an ELF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _Reader(data).facts()
            except (struct.error, IndexError) as error:
                raise ElfError(f"damaged ELF file ({error})") from error


@dataclass(frozen=True)
class Probe:
    """A USDT probe. `arguments`: as in the note, such as `8@%rdi`; `code`: the byte at its place;
    `semaphore`: address of its counter of tracers, 0: none."""

    provider: str
    name: str
    arguments: str
    address: int
    code: int
    semaphore: int


def probes(path: Path) -> list[Probe]:
    """The USDT probes of an ELF file (notes of SystemTap, version 3). Raises as `read`."""
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            return _Reader(data).probes()
        except (struct.error, IndexError) as error:
            raise ElfError(f"damaged ELF file ({error})") from error


class _Reader:
    """Walks one mapped file; all offsets are file offsets."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data

    def facts(self) -> Elf:
        head = self._unpack("<BB", 4)
        (machine,) = self._unpack("<H", 18)
        if head != (2, 1):
            return Elf(bits=64 if head[0] == 2 else 32, machine=machine)
        segments = self._segments()
        interpreter = next((self._text(s[1]) for s in segments if s[0] == _INTERP), None)
        symtabs, defined = self._symbols()
        build = next(
            (found for s in segments if s[0] == _NOTE if (found := self._build_id(s))), b""
        )
        needed = self._needed(segments)
        return Elf(64, machine, interpreter, needed, defined, _SYMTAB in symtabs, build)

    def _unpack(self, layout: str, offset: int) -> tuple:
        if offset < 0 or offset + struct.calcsize(layout) > len(self.data):
            raise IndexError(f"offset {offset} is outside the file")
        return struct.unpack_from(layout, self.data, offset)

    def _text(self, offset: int) -> str:
        inside = 0 <= offset < len(self.data)
        end = self.data.find(b"\0", offset) if inside else -1
        if end < 0:
            raise IndexError(f"text at {offset} is outside the file")
        return self.data[offset:end].decode("utf-8", "replace")

    def _segments(self) -> list[tuple[int, int, int, int]]:
        """(type, offset, address, size in the file) of each program header."""
        (start,) = self._unpack("<Q", 32)
        size, count = self._unpack("<HH", 54)
        rows = [self._unpack("<IIQQQQ", start + i * size) for i in range(count)]
        return [(kind, offset, address, length) for kind, _, offset, address, _, length in rows]

    def _needed(self, segments: list[tuple[int, int, int, int]]) -> tuple[str, ...]:
        tags: list[tuple[int, int]] = []
        for kind, offset, _, length in segments:
            if kind == _DYNAMIC:
                tags = [self._unpack("<QQ", at) for at in range(offset, offset + length - 15, 16)]
        strings = next((value for tag, value in tags if tag == _STRTAB), None)
        if strings is None:
            return ()
        base = self._offset_of(strings, segments)
        return tuple(self._text(base + value) for tag, value in tags if tag == _NEEDED)

    def _build_id(self, segment: tuple[int, int, int, int]) -> bytes:
        """The build-id among the notes of a segment; empty: none there."""
        _, at, _, length = segment
        end = at + length
        while at + 12 <= end:
            names, size, kind = self._unpack("<III", at)
            name = at + 12
            words = name + (names + 3 & ~3)
            if (kind, self.data[name : name + names]) == _BUILD_ID:
                return self.data[words : words + size]
            at = words + (size + 3 & ~3)
        return b""

    def probes(self) -> list[Probe]:
        """Those of all sections of notes: these notes are in no segment."""
        (start,) = self._unpack("<Q", 40)
        size, count = self._unpack("<HH", 58)
        sections = [self._unpack("<IIQQQQ", start + i * size) for i in range(count if start else 0)]
        segments = self._segments()
        return [
            self._probe(at, segments)
            for _, kind, _, _, offset, length in sections if kind == _SECTION_NOTE
            for at in self._notes(offset, length, _PROBE)
        ]  # fmt: skip

    def _notes(self, at: int, length: int, wanted: tuple[int, bytes]) -> list[int]:
        """Where the contents of notes of this type and name are."""
        found, end = [], at + length
        while at + 12 <= end:
            names, size, kind = self._unpack("<III", at)
            words = at + 12 + (names + 3 & ~3)
            if (kind, self.data[at + 12 : at + 12 + names]) == wanted:
                found.append(words)
            at = words + (size + 3 & ~3)
        return found

    def _probe(self, at: int, segments: list[tuple[int, int, int, int]]) -> Probe:
        address, _, semaphore = self._unpack("<QQQ", at)
        texts, at = [], at + 24
        for _ in range(3):
            texts.append(self._text(at))
            at += len(texts[-1].encode()) + 1
        (code,) = self._unpack("<B", self._offset_of(address, segments))
        provider, name, arguments = texts
        return Probe(provider, name, arguments, address, code, semaphore)

    def _offset_of(self, address: int, segments: list[tuple[int, int, int, int]]) -> int:
        for kind, offset, start, length in segments:
            if kind == _LOAD and start <= address < start + length:
                return address - start + offset
        raise IndexError(f"address {address:#x} is in no segment")

    def _symbols(self) -> tuple[set[int], frozenset[str]]:
        """(kinds of symbol tables present, functions that any of them defines)."""
        (start,) = self._unpack("<Q", 40)
        size, count = self._unpack("<HH", 58)
        count = count if start else 0
        sections = [self._unpack("<IIQQQQII", start + i * size) for i in range(count)]
        kinds, names = set(), set()
        for _, kind, _, _, offset, length, link, _ in sections:
            if kind in (_SYMTAB, _DYNSYM):
                kinds.add(kind)
                names |= self._defined(offset, length, sections[link][4])
        return kinds, frozenset(names)

    def _defined(self, offset: int, length: int, strings: int) -> set[str]:
        self._unpack("<B", offset + max(length, 1) - 1)
        rows = struct.iter_unpack("<IBBHQQ", self.data[offset : offset + length - length % 24])
        return {
            self._text(strings + name) for name, info, _, section, _, _ in rows
            if section != 0 and info & 15 in (2, 10)
        }  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""The ELF reader on programs that the compiler makes here, and on damaged ones."""

import subprocess
from pathlib import Path

import pytest
from support.programs import OWN_MALLOC, TRIVIAL, compiled

from llamalloc.formats import elf


def test_a_dynamic_program_names_its_loader_and_libraries(tmp_path: Path) -> None:
    facts = elf.read(compiled(tmp_path / "p", TRIVIAL))
    assert (facts.bits, facts.is_static, facts.has_symtab) == (64, False, True)
    assert "ld-linux" in (facts.interpreter or "")
    assert "libc.so.6" in facts.needed
    assert "main" in facts.defined


def test_a_malloc_that_is_only_used_is_not_its_own(tmp_path: Path) -> None:
    source = "#include <stdlib.h>\nint main(void) { return malloc(9) == 0; }"
    program = compiled(tmp_path / "p", source)
    assert b"malloc" in program.read_bytes()
    assert "malloc" not in elf.read(program).defined


@pytest.mark.parametrize("flag", ["-static", "-static-pie"])
def test_a_static_program_has_no_loader(tmp_path: Path, flag: str) -> None:
    facts = elf.read(compiled(tmp_path / "p", TRIVIAL, flag))
    assert facts.is_static and facts.needed == ()


def test_a_malloc_of_its_own_is_seen_even_when_stripped(tmp_path: Path) -> None:
    program = compiled(tmp_path / "p", OWN_MALLOC)
    assert "malloc" in elf.read(program).defined
    subprocess.run(["strip", program], check=True)
    facts = elf.read(program)
    assert "malloc" in facts.defined and not facts.has_symtab


@pytest.mark.parametrize(("flag", "length"), [("sha1", 20), ("md5", 16), ("none", 0)])
def test_the_build_id(tmp_path: Path, flag: str, length: int) -> None:
    program = compiled(tmp_path / "p", TRIVIAL, f"-Wl,--build-id={flag}")
    found = elf.read(program).build_id
    assert len(found) == length
    told = subprocess.run(["file", program], capture_output=True, text=True, check=True).stdout
    assert found.hex() in told


def test_what_is_no_elf_file_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"#!/bin/sh\n", b"\x7fELG" + bytes(60)):
        (tmp_path / "f").write_bytes(content)
        with pytest.raises(elf.ElfError, match="not an ELF"):
            elf.read(tmp_path / "f")


def test_every_truncation_and_flipped_byte_of_the_headers_is_survived(tmp_path: Path) -> None:
    whole = compiled(tmp_path / "p", TRIVIAL).read_bytes()
    broken = [whole[:n] for n in (4, 5, 20, 63, 64, 100, 500, len(whole) // 2, len(whole) - 1)]
    broken += [whole[:i] + bytes([whole[i] ^ 0xFF]) + whole[i + 1 :] for i in range(4, 600)]
    refused = 0
    for content in broken:
        (tmp_path / "f").write_bytes(content)
        try:
            elf.read(tmp_path / "f")
        except elf.ElfError:
            refused += 1
    assert refused > 20

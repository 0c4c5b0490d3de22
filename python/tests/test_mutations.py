# SPDX-License-Identifier: Apache-2.0
"""Files of others, damaged at random: each reads, or gives one line in the reader's own error.

The C++ readers have libFuzzer for this (tests/corpora); here the mutants are few and always the
same, since a number seeds each.
"""

import gzip
import random
import shutil
from pathlib import Path

import pytest

from llamalloc.formats import contracts, elf, learned_state, model_file, profile

GOLDEN = contracts.folder() / "golden"
# Without a checksum, which would refuse nearly everything.
MODEL = (GOLDEN / "model_v3.safetensors").read_bytes().replace(b'"crc32"', b'"crc00"')
MUTANTS = 300
EDGES = [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF]
PROGRAM = Path(shutil.which("true") or "/bin/true")


def mutant(data: bytes, seed: int) -> bytes:
    """`data` with some of: other bytes, a cut, a part left out, a part twice."""
    chance = random.Random(seed)
    out = bytearray(data)
    for _ in range(1 << chance.randrange(5)):
        at = chance.randrange(len(out) + 1)
        length = chance.randrange(1, 40)
        kind = chance.randrange(8)
        if kind == 0:
            del out[at:]
        elif kind == 1:
            del out[at : at + length]
        elif kind == 2:
            out[at:at] = out[at : at + length]
        elif at < len(out):
            out[at] = chance.choice(EDGES) if kind < 5 else chance.randrange(256)
    return bytes(out)


def packed(data: bytes) -> bytes:
    return gzip.compress(data, 1)


def unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())


READERS = {
    "profile": (profile.read, profile.ProfileError, unpacked(GOLDEN / "profile_v1.pb.gz"), packed),
    "profile of C++": (
        profile.read,
        profile.ProfileError,
        unpacked(GOLDEN / "profile_v1_cpp.pb.gz"),
        packed,
    ),
    "profile's gzip": (
        profile.read,
        profile.ProfileError,
        (GOLDEN / "profile_v1.pb.gz").read_bytes(),
        bytes,
    ),
    "model": (
        model_file.read,
        model_file.ModelError,
        MODEL,
        bytes,
    ),
    "model's header": (
        model_file.read,
        model_file.ModelError,
        MODEL[:900],
        lambda head: head + MODEL[900:],
    ),
    "state": (
        learned_state.read,
        learned_state.StateError,
        (GOLDEN / "learned_v1.learned").read_bytes(),
        bytes,
    ),
    "ELF": (elf.read, elf.ElfError, PROGRAM.read_bytes()[:4096], bytes),
}


@pytest.mark.parametrize("name", READERS)
def test_damage_is_told_in_one_line(name, tmp_path):
    read, error, original, finish = READERS[name]
    path = tmp_path / "damaged"
    refused = 0
    for seed in range(MUTANTS):
        path.write_bytes(finish(mutant(original, seed)))
        try:
            read(path)
        except error as fault:
            refused += 1
            said = str(fault)
            assert said, f"mutant {seed}"
            assert "\n" not in said, f"mutant {seed}: {said}"
    assert refused > MUTANTS // 10


def test_no_damage_is_no_fault(tmp_path):
    for name in ("profile", "profile of C++", "profile's gzip", "model", "model's header", "state"):
        read, _, original, finish = READERS[name]
        path = tmp_path / "whole"
        path.write_bytes(finish(original))
        read(path)

# SPDX-License-Identifier: Apache-2.0
"""The public pprof tool opens what the library writes, and shows the right names and numbers.

The profile is contracts/golden/profile_v1_cpp.pb.gz, which src/profile/pprof_writer_test.cc proves
to be, byte by byte, what the C++ writer writes. Expected values are worked out here from the
contract (contracts/profile_format.md), not read back from the file.

Needs Go (Debian: golang-go; 1.19 or later) to build pprof and dot (Debian: graphviz) for the SVG.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "contracts" / "golden" / "profile_v1_cpp.pb.gz"
# The last pprof whose go.mod is content with Debian 12's Go 1.19.
PPROF = "github.com/google/pprof@v0.0.0-20240711041743-f6c9dda6c6da"
INTERVAL = 4096


def weight(size: int) -> float:
    """Objects that a sampled one of `size` bytes stands for (contract, `sample_type`)."""
    return 1 / -math.expm1(-max(size, 1) / INTERVAL)


# Alive or dead: (sampled, bytes asked for at allocation, bytes asked for last), per context.
DEAD = {"push_back": (3, 4096, 4096), "stripped": (1, 0, 0)}
ALIVE = {"push_back": (2, 4096, 4096), "resized": (1, 100, 120), "nowhere": (1, 1 << 20, 1 << 20)}


def estimate(sampled: int, size: int, last_size: int) -> tuple[int, int]:
    """Objects and bytes of the whole process, rounded as the contract says."""
    return round(sampled * weight(size)), round(sampled * weight(size) * last_size)


def totals(contexts: dict[str, tuple[int, int, int]]) -> tuple[int, int]:
    pairs = [estimate(*context) for context in contexts.values()]
    return sum(n for n, _ in pairs), sum(b for _, b in pairs)


@pytest.fixture(scope="session")
def pprof() -> Path:
    """build/tools/pprof, built on first use."""
    tool = ROOT / "build" / "tools" / "pprof"
    if tool.exists():
        return tool
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is missing (Debian: apt-get install golang-go): cannot build pprof")
    tool.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOBIN": str(tool.parent), "GOFLAGS": "-mod=mod"}
    subprocess.run([go, "install", PPROF], env=environment, cwd=tool.parent, check=True)
    return tool


@pytest.fixture
def view(pprof: Path, tmp_path: Path):
    """view("-top"): what pprof prints for the golden profile."""

    def run(*arguments: str) -> str:
        environment = os.environ | {"PPROF_TMPDIR": str(tmp_path), "PPROF_BINARY_PATH": "/nowhere"}
        command = [str(pprof), "-symbolize=local", *arguments, str(GOLDEN)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def flat_of(top: str, name: str) -> str:
    """The first column of the function's row of -top."""
    row = next(line for line in top.splitlines() if line.rstrip().endswith(name))
    return row.split()[0]


def test_top_shows_demangled_names_and_bytes(view):
    top = view("-top", "-unit=bytes", "-nodefraction=0")
    _, dead = totals(DEAD)
    _, alive = totals(ALIVE)
    assert "Type: allocated_space" in top  # default_sample_type
    assert "Duration: 60s" in top
    assert f"Total samples = {dead + alive}B" in top
    assert flat_of(top, "std::vector::push_back") == f"{round(5 * weight(4096) * 4096)}B"
    assert flat_of(top, "?my_server+0x1a2b0") == f"{estimate(*ALIVE['resized'])[1]}B"
    assert flat_of(top, " serve::request") == "0"


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("allocated_objects", totals(DEAD)[0] + totals(ALIVE)[0]),
        ("deallocated_objects", totals(DEAD)[0]),
        ("censored_allocated_objects", totals(ALIVE)[0]),
    ],
)
def test_every_count_has_its_total(view, index: str, expected: int):
    top = view("-top", f"-sample_index={index}")
    assert re.search(rf"Total samples = {expected}\b", top), top


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("deallocated_space", totals(DEAD)[1]),
        ("censored_allocated_space", totals(ALIVE)[1]),
    ],
)
def test_every_space_has_its_total(view, index: str, expected: int):
    top = view("-top", "-unit=bytes", f"-sample_index={index}")
    assert f"Total samples = {expected}B" in top


def test_tags_have_keys_and_units(view):
    tags = view("-tags", "-sample_index=allocated_objects")
    keys = set(re.findall(r"^ *(\w+): Total", tags, re.MULTILINE))
    assert keys == {
        "bytes", "sampled", "avg_lifetime", "stddev_lifetime", "min_lifetime", "max_lifetime",
        "same_thread", "same_cpu", "lifetimes", "censored_ages", "peak_bytes", "live",
    }  # fmt: skip
    # Lifetimes 1, 2 and 4 ms: mean 7/3 ms, standard deviation sqrt(14/9) ms.
    assert re.search(r"avg_lifetime: .*\n(.*\n)*? +8\.0 \(.*\): 2\.33ms", tags)
    assert re.search(r"stddev_lifetime: .*\n(.*\n)*? +8\.0 \(.*\): 1\.25ms", tags)
    assert re.search(r"\bbytes: .*\n(.*\n)*? +41\.0 \(.*\): 112B", tags)


def test_raw_has_stacks_labels_and_build_ids(view):
    raw = view("-raw")
    assert "Comment: llamalloc-profile 1 exit=1" in raw
    assert "PeriodType: space bytes\nPeriod: 4096\n" in raw
    assert "Time: 2023-11-14 22:13:20 +0000 UTC" in raw
    # 2^(79/4) ns is the bucket of 1 ms; four buckets on, twice that.
    assert "censored_ages:[132:2] lifetimes:[79:1 83:1 87:1]" in raw
    assert "same_cpu:[2 count] same_thread:[2 count] sampled:[5 count]" in raw
    assert "0x7f0000002fff M=2" in raw and "s=0(_ZNSt6vectorIiSaIiEE9push_backERKi)" in raw
    assert "1: 0x555500000000/0x555500100000/0x5555 /srv/my server 01abff [FN]" in raw
    assert len(re.findall(r"^ +\d+( +\d+){5}: ", raw, re.MULTILINE)) == 4


def test_svg_is_a_picture_with_the_names(view):
    if shutil.which("dot") is None:
        pytest.skip("dot is missing (Debian: apt-get install graphviz): pprof needs it for SVG")
    svg = view("-svg", "-nodefraction=0", "-edgefraction=0", "-output=/dev/stdout")
    assert "<svg" in svg and svg.rstrip().endswith("</svg>")
    assert "push_back" in svg and "?my_server+0x1a2b0" in svg

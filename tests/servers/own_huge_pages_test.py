# SPDX-License-Identifier: Apache-2.0
"""A process that switches transparent huge pages off for itself, as some interpreters do."""

import json
from pathlib import Path

import pytest
from hugepages import hugepages
from preload import compile_program, run


def statistics(mode: str, path: Path) -> tuple[float, dict]:
    """The share of the memory that is left, and the statistics at the end."""
    program = compile_program("own_huge_pages")
    done = run([program, mode], seconds=60, conf=f"stats:{path}")
    if done.stdout == "not supported\n":
        pytest.skip("this kernel cannot switch huge pages off except where advised")
    left, _, before = done.stdout.split()
    return int(left) / int(before), json.loads(path.read_text())


@pytest.mark.machine
@pytest.mark.parametrize("mode", ["off", "late", "inherit"])
def test_what_is_free_of_pages_goes_back(mode: str, tmp_path: Path):
    """No huge page is lost by it; and statistics say what holds for the process."""
    with hugepages("always"):
        left, document = statistics(mode, tmp_path / "stats.json")
    assert document["hugepages"] == "disabled"
    assert left < 0.4
    assert document["stats"]["backed"] < 40 << 20


@pytest.mark.machine
def test_off_except_where_advised_is_as_madvise(tmp_path: Path):
    with hugepages("always"):
        _, document = statistics("advised", tmp_path / "stats.json")
    assert document["hugepages"] == "madvise"
    assert document["stats"]["huge_pages_broken"] <= 2


@pytest.mark.machine
def test_a_process_that_keeps_them(tmp_path: Path):
    with hugepages("always"):
        _, document = statistics("keep", tmp_path / "stats.json")
    assert document["hugepages"] == "always"
    assert document["stats"]["huge_pages_broken"] <= 2


@pytest.mark.machine
def test_never_is_taken_at_its_word(tmp_path: Path):
    """The process asked for nothing, but the administrator switched them off for all."""
    with hugepages("never"):
        left, document = statistics("keep", tmp_path / "stats.json")
    assert document["hugepages"] == "never"
    assert left < 0.4
    assert document["stats"]["backed"] < 40 << 20
    assert document["stats"]["pages_mended"] == 0

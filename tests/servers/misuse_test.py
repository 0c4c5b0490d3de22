# SPDX-License-Identifier: Apache-2.0
"""Misuse is named in one line, and ends the process or not, as the option `on_misuse` says."""

import os
import re
import subprocess

import pytest
from preload import compile_program, environment, run

# What hardened mode says of each misuse; all sizes alike.
HARDENED = {
    "twice": "freed twice",
    "twice_later": "freed twice",
    "twice_in_thread": "freed twice",
    "foreign": "not allocated by llamalloc",
    "interior": "not the start of an object",
    "resize_interior": "resized, but not the start of an object",
    "overrun": "written past its end",
    "overrun_in_realloc": "written past its end",
    "write_after_free": "written to after it was freed",
    "wrong_size": "freed with the size",
    "wrong_size_up": "freed with the size",
}
PLAIN = {how: HARDENED[how] for how in ("foreign", "interior", "resize_interior", "twice")}
LINE = re.compile(
    r"^llamalloc: object 0x[0-9a-f]+: (?P<what>.*) \((?P<who>.*thread \d+.*)\); (.*)$"
)


def misuse(how: str, size: int, conf: str, *more: str) -> tuple[int, str, list[str]]:
    """(exit status, stdout, the library's lines) of one misuse."""
    done = subprocess.run(
        [compile_program("misuse"), how, str(size), *more],
        env=environment(conf),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


def assert_named(lines: list[str], what: str, end: str) -> re.Match[str]:
    assert len(lines) == 1, lines
    match = LINE.match(lines[0])
    assert match and match["what"].startswith(what) and match[3] == end, lines
    return match


@pytest.mark.parametrize("size", [1, 40, 100, 1000, 8000])
@pytest.mark.parametrize("how", HARDENED)
def test_hardened_mode_aborts_and_says_why(how, size):
    status, output, lines = misuse(how, size, "hardened:on")
    assert (status, output) == (-6, "")
    assert_named(lines, HARDENED[how], "aborting")


@pytest.mark.parametrize("size", [100, 8000])
@pytest.mark.parametrize("how", HARDENED)
def test_hardened_mode_goes_on_if_told_so(how, size):
    status, output, lines = misuse(how, size, "hardened:on,on_misuse:report")
    assert (status, output) == (0, "lived on\n")
    assert_named(lines, HARDENED[how], "continuing")


@pytest.mark.parametrize("size", [300_000, 5_000_000])
@pytest.mark.parametrize("how", ["overrun", "interior", "wrong_size", "overrun_in_realloc"])
def test_large_objects_are_hardened_too(how, size):
    status, _, lines = misuse(how, size, "hardened:on")
    assert status == -6
    assert_named(lines, HARDENED[how], "aborting")


@pytest.mark.parametrize(("conf", "end"), [("", "aborting"), ("on_misuse:report", "continuing")])
@pytest.mark.parametrize("how", PLAIN)
def test_what_is_found_without_hardened_mode(how, conf, end):
    status, _, lines = misuse(how, 100, conf)
    assert status == (-6 if end == "aborting" else 0)
    match = assert_named(lines, PLAIN[how], end)
    assert how == "foreign" or "size class 112" in match["who"]


@pytest.mark.parametrize("worker", ["worker:off", "profile:/dev/null,sample_interval:1GiB"])
@pytest.mark.parametrize("size", [300_000, 5_000_000])
@pytest.mark.parametrize("how", ["twice", "twice_in_thread"])
def test_a_large_object_freed_twice_is_no_object(how, size, worker):
    """Beside a worker it waits with its thread, or as the mapping freed last."""
    status, _, lines = misuse(how, size, worker)
    assert status == -6
    assert_named(lines, "not allocated by llamalloc", "aborting")


@pytest.mark.parametrize("conf", ["", "hardened:on"])
@pytest.mark.parametrize("size", [0, 1, 16, 100, 5000, 300_000, 5_000_000])
def test_right_use_is_silent(size, conf):
    assert misuse("nothing", size, conf) == (0, "lived on\n", [])


def unread(how: str, conf: str) -> int:
    """The exit status of a program whose stderr is a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [compile_program("misuse"), how],
            env=environment(conf),
            stdout=subprocess.DEVNULL,
            stderr=writer,
            timeout=60,
            check=False,
            restore_signals=True,  # Python ignores SIGPIPE; the program does not
        ).returncode
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("how", "conf", "status"),
    [
        ("twice", "", -6),
        ("twice", "on_misuse:report", 0),
        ("nothing", "stats_print:on", 0),
    ],
)
def test_a_line_that_nobody_reads_changes_nothing(how, conf, status):
    """Not SIGPIPE: stderr goes to a logger that has ended."""
    assert unread(how, conf) == status


def test_allocation_is_named_when_it_was_sampled():
    """One object in 64 bytes: that of 8,000 bytes is a sample for certain."""
    _, _, lines = misuse("overrun", 8000, "hardened:on,sample_interval:64")
    assert re.search(r"allocated by .*allocate_here.* < main", lines[0]), lines


def test_under_a_filter_of_the_program_no_file_is_read_for_names():
    """The filter would end the process before it says anything."""
    status, _, lines = misuse("overrun", 8000, "hardened:on,sample_interval:64", "filtered")
    assert status == -6
    assert re.search(r"allocated by 0x[0-9a-f]+ < 0x", lines[0]), lines


def test_a_wrong_size_is_only_noted_without_hardened_mode():
    status, output, lines = misuse("wrong_size_up", 5_000_000, "")
    assert (status, output) == (0, "lived on\n")
    assert len(lines) == 1 and "but the object is smaller" in lines[0]


@pytest.mark.parametrize("program", ["stress"])
def test_sound_programs_run_in_hardened_mode(program):
    run([compile_program(program), "1", "21", "4"], seconds=120, conf="hardened:on")


def test_other_programs_run_in_hardened_mode():
    text = "import json, re, decimal; print(len(json.dumps(list(range(100000)))))"
    done = run(["python3", "-c", text], seconds=120, conf="hardened:on")
    assert done.stdout == "688890\n"

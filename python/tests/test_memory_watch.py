# SPDX-License-Identifier: Apache-2.0
"""What a program held over a run: how it is watched, and its figures."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from rich.table import Table

from lab import memory_table
from llamalloc.running import procmem
from llamalloc.running.memory_figures import TITLES, Memory, Sizes
from llamalloc.running.memory_group import MemoryGroup, prefix
from llamalloc.running.memory_watch import PERIOD, MemoryWatch

MIB = 1 << 20
RSS, CHARGE = Sizes(3 * MIB, 4 * MIB, 5 * MIB), Sizes(6 * MIB, 7 * MIB, 20 * MIB)
# Holds 64 MiB for a while, then 1 MiB, and says so each time.
FALLS = (
    "import sys, time\n"
    "much = bytearray(64 << 20)\n"
    "time.sleep(.3)\n"
    "del much\n"
    "print('fell', flush=True)\n"
    "sys.stdin.read()"
)


def test_figures_are_of_charge_and_rss_and_the_peak_over_live():
    found = Memory(RSS, CHARGE, 10 * MIB)
    assert found.over_live == 2.0
    assert list(found.figures()) != list(TITLES) and set(found.figures()) == set(TITLES)
    assert memory_table.cells([found]) == ["6.0", "7.0", "20", "2.00", "3.0", "4.0", "5.0"]
    memory_table.add_columns(view := Table())
    heads = ["peak\ncharge\nMiB", "peak /\nlive", "RSS MiB"]
    assert [column.header for column in view.columns][2:5] == heads


def test_without_a_group_the_peak_is_of_rss_and_charges_are_dashes():
    found = Memory(RSS, None, 2 * MIB)
    assert found.over_live == 2.5
    assert memory_table.cells([found]) == ["-", "-", "-", "2.50", "3.0", "4.0", "5.0"]


def test_where_nobody_counts_what_is_live_there_is_no_ratio():
    assert Memory(RSS, CHARGE).over_live is None
    assert "over_live" not in Memory(RSS, CHARGE).figures()


def test_a_cell_is_the_median_of_the_runs_that_have_it():
    runs = [Memory(RSS, Sizes(0, 0, n * MIB), 1) for n in (30, 10, 20)] + [Memory(RSS)]
    assert memory_table.median("peak_charge", runs) == 20 * MIB
    assert memory_table.median("peak_charge", runs[3:]) is None


def watched(group: MemoryGroup | None) -> Memory:
    words = [*prefix(group, {}), sys.executable, "-c", FALLS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as program:
        with MemoryWatch(program.pid, group) as watch:
            assert program.stdout.readline() == b"fell\n"
        found = watch.memory(32 * MIB)
        program.stdin.close()
    return found


def test_the_end_is_when_the_watch_ends(group: MemoryGroup):
    found = watched(group)
    for sizes in (found.rss, found.charge):
        assert sizes.end < 40 * MIB < 64 * MIB < sizes.peak
        assert sizes.end < sizes.average < sizes.peak
    assert found.over_live > 2


def test_without_a_group_there_is_rss():
    found = watched(None)
    assert found.charge is None and found.rss.end < 64 * MIB < found.rss.peak


def test_what_happens_after_a_stop_is_no_part_of_it():
    with MemoryWatch(os.getpid(), None) as watch:
        watch.stop()
        found = watch.rss()
        held = bytearray(64 << 20)
    assert found.end > MIB and len(held) == 64 * MIB
    assert watch.rss() == found


def test_a_program_that_is_not_there_yet_is_waited_for():
    calls = []

    def pid_of() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise ProcessLookupError
        return os.getpid()

    with MemoryWatch(pid_of, None) as watch:
        time.sleep(6 * PERIOD)
    assert len(calls) >= 3 and watch.rss().end > MIB


def test_a_program_that_has_ended_is_not_seen():
    with subprocess.Popen(["true"]) as program:
        time.sleep(0.3)
        assert procmem.read_resident(program.pid) == (0, 0)
        with MemoryWatch(program.pid, None) as watch:
            pass
    assert watch.memory() == Memory(Sizes(0, 0, 0))
    with pytest.raises(OSError):
        procmem.read_resident(program.pid)

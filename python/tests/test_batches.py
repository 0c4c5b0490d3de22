# SPDX-License-Identifier: Apache-2.0
"""The batches of keys: what is asked of Redis, and what a line of the table holds."""

from __future__ import annotations

import argparse
import os
import time
from itertools import pairwise

import pytest
from rich.console import Console

from lab import redis_clients
from lab.workloads import batches, batches_table
from lab.workloads.batches import Load
from lab.workloads.batches_table import Run
from lab.workloads.heap_watch import HeapWatch, work_of
from llamalloc.running.memory_figures import Memory, Sizes

MIB = 1 << 20


def run(broken: int | None, faults: int, right: int = 0, wrong: int = 0) -> Run:
    names = ("realized_fragmentation", "average_fragmentation", "pages_mended")
    told = dict.fromkeys((*names, "huge_pages_refetched"), 0) | {"pages_broken": broken}
    told |= {"release_skipped_right": right, "release_skipped_wrong": wrong}
    statistics = None if broken is None else told
    memory = Memory(
        Sizes(90 * MIB, 110 * MIB, 140 * MIB), Sizes(95 * MIB, 120 * MIB, 130 * MIB), 100 * MIB
    )
    return Run(memory, 5000.0, 2e-5, faults, 0.9, statistics)


def text_of(found: dict[str, list[Run]], of=batches_table.table) -> list[list[str]]:
    """The cells of each line of a table."""
    console = Console(width=300)
    with console.capture() as capture:
        console.print(of(found))
    lines = (line.split() for line in capture.get().splitlines())
    return [words for words in lines if words and words[0] in found]


def test_figures_stand_beside_the_baselines():
    static, auto = text_of({"static": [run(80, 1000)], "auto": [run(8, 400, right=9, wrong=1)]})
    assert static[0] == "static" and auto[0] == "auto"
    assert static[4:6] == ["80", "1.00"] and auto[4:6] == ["8", "0.10"]
    assert "0.40" in auto and "90%" in auto


def test_charge_and_rss_have_a_table():
    (static,) = text_of({"static": [run(9, 10)]}, batches_table.memory)
    assert static == ["static", "95", "120", "130", "1.30", "90", "110", "140"]


def test_the_median_of_the_runs_is_shown():
    (static,) = text_of({"static": [run(9, 10), run(7, 10), run(80, 10)]})
    assert static[4] == "9"


def test_what_a_peer_does_not_tell_is_a_dash():
    (glibc,) = text_of({"glibc": [run(None, 10)]})
    assert glibc.count("-") >= 8


def test_batches_share_no_key():
    load = Load(argparse.Namespace(keys=50, value=10, connections=3))
    for one, next_one in pairwise(range(4)):
        assert not set(load.keys(one)) & set(load.keys(next_one))


def test_a_request_is_one_of_redis_protocol():
    (request,) = redis_clients.sets([7], 4)
    assert request == b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000007\r\n$4\r\nxxxx\r\n"
    (request,) = redis_clients.deletes([7])
    assert request == b"*2\r\n$3\r\nDEL\r\n$16\r\nkey:000000000007\r\n"


def test_the_plans_differ_from_the_baseline_by_the_forecast():
    static = batches.PLANS["static"]
    assert batches.PLANS["peak"] == static.replace("none", "peak")
    assert batches.PLANS["trend"] == static.replace("none", "trend")
    assert batches.PLANS["auto"] == "", "what a user gets"


def test_huge_pages_and_faults_of_a_process_are_told():
    before = work_of(os.getpid())
    with HeapWatch(os.getpid()) as watch:
        held = bytearray(32 * MIB)
        time.sleep(0.6)
    assert len(held) == 32 * MIB
    assert 0 <= watch.coverage() <= 1
    assert work_of(os.getpid()).faults > before.faults


def test_an_unknown_row_is_named(capsys):
    assert batches.main(["--only", "nosuch"]) == 2
    assert "no row nosuch; there are static,peak" in capsys.readouterr().err.replace(", ", ",")


def test_at_least_one_run(capsys):
    with pytest.raises(SystemExit):
        batches.main(["--runs", "0"])
    assert "must be at least 1" in capsys.readouterr().err

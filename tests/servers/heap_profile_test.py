# SPDX-License-Identifier: Apache-2.0
"""Profiles of what is in use: always on where somebody may look, and they say what is missing."""

import gzip
import os
import time
from pathlib import Path

import pytest
from http_test import Program, by_site, texts
from live_test import Plain

from llamalloc.formats.pprof_proto import ProfileMessage
from llamalloc.running import control, live, published

KIB, MIB = 1 << 10, 1 << 20
START = "llamalloc-heap: complete since the start of the process"


def read(path: Path) -> ProfileMessage:
    profile = ProfileMessage()
    profile.ParseFromString(gzip.decompress(path.read_bytes()))
    return profile


def comments(profile: ProfileMessage) -> list[str]:
    return [texts(profile)[i] for i in profile.comment]


@pytest.mark.parametrize(("conf", "interval"), [
    ("control:{0}/c", 2 * MIB), ("http:127.0.0.1:0", 2 * MIB),
    ("http:127.0.0.1:0,sample_interval:8KiB", 8 * KIB),
    ("http:127.0.0.1:0,learn:on", 512 * KIB), ("control:{0}/c,profile:{0}/p", 512 * KIB),
])  # fmt: skip
def test_who_may_look_finds_samples(conf: str, interval: int, tmp_path: Path):
    program = Plain(conf.format(tmp_path))
    try:
        at = published.read(program.pid)
        assert at.number("profiler.on") == 1
        assert at.number("profiler.interval") == interval
        assert at.number("profiler.complete_since") == at.number("started")
    finally:
        program.close()


def test_a_plain_process_is_not_sampled():
    program = Plain()
    try:
        at = published.read(program.pid)
        assert (at.number("profiler.on"), at.number("profiler.interval")) == (0, 512 * KIB)
    finally:
        program.close()


def test_the_heap_is_profiled_through_the_control_socket(tmp_path: Path):
    program = Plain(f"control:{tmp_path}/c,sample_interval:4KiB")
    try:
        program.do("keep 2000 10000")
        program.do("churn 3000 10000")
        control.ask(tmp_path / "c", f"heap {tmp_path}/h.pb.gz")
        profile = read(tmp_path / "h.pb.gz")
        assert texts(profile)[profile.default_sample_type] == "inuse_space"
        assert START in comments(profile)
        sites = by_site(profile)
        assert sites["_Z4keepm"]["inuse_space"] == pytest.approx(20e6, rel=0.2)
        assert sites["_Z4keepm"]["inuse_objects"] == pytest.approx(10_000, rel=0.2)
        assert sites["_Z5churnm"]["inuse_space"] == 0
    finally:
        program.close()


def test_what_is_missing_is_said(tmp_path: Path):
    program = Plain(f"control:{tmp_path}/c,sample_interval:4KiB")
    try:
        for command, said in (("off", "sampling is off"), ("on", "allocated before are missing")):
            control.ask(tmp_path / "c", f"sampling {command}")
            control.ask(tmp_path / "c", f"heap {tmp_path}/h.pb.gz")
            (comment,) = (c for c in comments(read(tmp_path / "h.pb.gz")) if "-heap" in c)
            assert said in comment
        control.ask(tmp_path / "c", "set sample_interval 8KiB")  # no gap
        control.ask(tmp_path / "c", f"heap {tmp_path}/h.pb.gz")
        assert 0 < read(tmp_path / "h.pb.gz").duration_nanos < 60e9
    finally:
        program.close()


def test_top_and_http_say_it_too(tmp_path: Path):
    program = Program("127.0.0.1:0", f"control:{tmp_path}/c,sample_interval:4KiB")
    try:
        assert START in comments(program.profile("heap"))
        assert START in comments(program.profile("pinned"))
        program.do("keep 2000 1000")
        assert live.look(program.address).sites_note == ""
        control.ask(tmp_path / "c", "sampling off")
        assert "newer objects" in live.look(program.address).sites_note
        control.ask(tmp_path / "c", "sampling on")
        assert "older than" in live.look(program.address).sites_note
    finally:
        program.close()


def test_a_forked_child_has_the_heap_since_the_fork(tmp_path: Path):
    program = Plain(f"control:{tmp_path}/%p,sample_interval:4KiB")
    try:
        program.do("keep 2000 1000")
        pid = int(program.do("fork"))
        deadline = time.monotonic() + 20
        while (child := published.read(pid)).number("profiler.complete_since") <= child.number(
            "started"
        ):
            assert time.monotonic() < deadline
        assert child.number("profiler.on") == 1
        os.kill(pid, 9)
    finally:
        program.close()

# SPDX-License-Identifier: Apache-2.0
"""`llamalloc top` and `llamalloc ps` on processes that were not prepared for it, and by HTTP."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_test import Program
from preload import compile_program, environment

from llamalloc.formats import contracts
from llamalloc.running import live, published

MIB = 1 << 20
# Gauges of the release plan, which are not among the counters.
OF_THE_WORKER = (
    *("realized_fragmentation", "average_fragmentation", "demand_peak"),
    *("hold_empty", "hold_mappings", "fetch_nanos", "fetch_debt_nanos", "limit_distance"),
    "caches_bypassed",
)


class Plain(Program):
    """A process that was told nothing but to run under the library."""

    def __init__(self, conf: str = "", *, preloaded: bool = True, user: int | None = None) -> None:
        self.process = subprocess.Popen(
            [compile_program("http_load")],
            env=environment(conf) if preloaded else None, user=user,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"

    @property
    def pid(self) -> int:
        return self.process.pid


@pytest.fixture
def plain() -> Iterator[Plain]:
    started = Plain()
    yield started
    started.close()


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llamalloc.cli", *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def held(pid: int) -> tuple[int, int]:
    """Threads and descriptors of a process; the worker comes and goes by itself."""
    names = [(t / "comm").read_text().strip() for t in Path(f"/proc/{pid}/task").iterdir()]
    return len([n for n in names if n != "llamalloc"]), len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_counters_are_those_that_the_process_reports():
    program = Program()
    try:
        program.do("keep 2000 20000")
        program.do(f"keep {3 * MIB} 10")
        told = json.loads(program.get("/stats.json"))
        read = published.read(told["pid"])
        seen = published.figures(read)
        for stat in contracts.stats():
            if stat.name in ("metadata", "resident", "mapped") or stat.name in OF_THE_WORKER:
                continue  # the first are found by asking the system
            near = 2 * MIB if stat.unit == "bytes" else 2
            assert seen[stat.name] == pytest.approx(told["stats"][stat.name], abs=near), stat.name
        assert read.text("http") == program.address
        pages = {group["group"]: group["pages"] for group in told["groups"]}
        assert {g["group"]: g["pages"] for g in published.groups(read)} == pages
    finally:
        program.close()


def test_top_shows_a_process_that_nobody_prepared(plain: Plain):
    plain.do(f"keep {MIB} 50")
    threads, files = held(plain.pid)
    shown = command("top", str(plain.pid), "--once")
    assert shown.returncode == 0, shown.stderr
    assert "http_load" in shown.stdout and "50" in shown.stdout, shown.stdout
    assert held(plain.pid) == (threads, files)
    document = json.loads(command("top", str(plain.pid), "--once", "--json").stdout)
    assert document["stats"]["allocated"] >= 50 * MIB
    assert document["rss"] >= 50 * MIB
    assert 0 <= document["coverage"] <= 1
    assert document["rates"]["allocated"] == 0


def test_the_gate_is_read_from_outside():
    program = Plain("learn:on")
    try:
        deadline = time.monotonic() + 20
        while not (gate := published.read(program.pid).gate):
            assert time.monotonic() < deadline
        assert gate == live.look(str(program.pid)).gate
    finally:
        program.close()


def test_growth_by_call_site():
    program = Program()
    try:
        program.do("keep 2000 1000")
        before = live.look(program.address)
        program.do("keep 2000 10000")
        after = live.look(program.address)
        site, in_use, change = live.growth(before, after)[0]
        assert site == "_Z4keepm"
        assert in_use == pytest.approx(22e6, rel=0.2)
        assert change == pytest.approx(20e6, rel=0.3)
        shown = command("top", program.address, "--once")
        assert "keep" in shown.stdout, shown.stderr
    finally:
        program.close()


def test_ps_lists_a_family_and_nothing_else(plain: Plain):
    child = int(plain.do("fork"))
    stranger = Plain(preloaded=False)
    try:
        listed = command("ps")
        assert listed.returncode == 0, listed.stderr
        pids = {line.split()[0] for line in listed.stdout.splitlines()[1:]}
        assert {str(plain.pid), str(child)} <= pids
        assert str(stranger.pid) not in pids
        told = command("top", str(stranger.pid), "--once")
        assert told.returncode == 2
        assert "does not run under llamalloc" in told.stderr
    finally:
        stranger.close()


def test_what_is_not_there_is_one_line():
    for target in ("4194303", "127.0.0.1:1", "unix:/nowhere/socket", "nonsense"):
        told = command("top", target, "--once")
        assert told.returncode == 2
        assert len(told.stderr.splitlines()) == 1, told.stderr

# SPDX-License-Identifier: Apache-2.0
"""What `llamalloc report` shows of real programs: peak, timeline, names, running processes."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from preload import compile_program, environment

from llamalloc.formats import profile
from llamalloc.formats.pprof_proto import ProfileMessage
from llamalloc.reporting.history import timeline

MIB = 1 << 20
FINE = "sample_interval:16KiB"


@contextmanager
def phases(conf: str, name: str | Path | None = None) -> Iterator[subprocess.Popen]:
    """The program when it holds 4 MiB after 32 MiB; ended as usual, if it still runs."""
    with subprocess.Popen(
        [name or compile_program("phases")], env=environment(conf),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as program:  # fmt: skip
        assert program.stdout.readline() == "ready\n"
        try:
            yield program
        finally:
            if program.poll() is None:
                program.communicate("\n", timeout=60)


def report(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llamalloc.cli", "report", *map(str, words)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def until(holds, seconds: float = 60):
    """What `holds` returns once it is true."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def by_frame(found: profile.Profile, frame: str, value) -> float:
    return sum(value(c) for c in found.contexts if any(frame in f for f in c.frames))


def test_a_profile_knows_the_peak_and_the_time_line(tmp_path):
    path = tmp_path / "p.pb.gz"
    with phases(f"profile:{path},{FINE}"):
        pass
    found = profile.read(path)
    assert 24 * MIB < found.peak.bytes < 44 * MIB
    assert 0 < found.peak.at_ns < found.duration_ns
    assert by_frame(found, "crest", lambda c: c.peak_bytes) == pytest.approx(
        found.peak.bytes, rel=0.1
    )
    assert by_frame(found, "valley", lambda c: c.peak_bytes) == 0
    shown = timeline(found)
    assert max(shown.total) > 20 * MIB > 8 * MIB > shown.total[-1]
    crest = next(values for site, values in shown.sites.items() if "crest" in site)
    assert max(crest) > 20 * MIB and crest[-1] < 2 * MIB
    assert shown.seconds == sorted(shown.seconds)


def main_file(path) -> str:
    """The first mapping's file, which pprof shows as `File:`."""
    message = ProfileMessage.FromString(gzip.decompress(path.read_bytes()))
    return message.string_table[message.mapping[0].filename].decode()


def test_a_program_is_named_as_it_was_called(tmp_path):
    """Debian's redis-server is a link to redis-check-rdb."""
    called = tmp_path / "called-so"
    called.symlink_to(compile_program("phases"))
    for name in (called, os.path.relpath(called)):
        with phases(f"profile:{tmp_path}/p.pb.gz,{FINE}", name):
            pass
        assert profile.read(tmp_path / "p.pb.gz").program == "called-so"
        assert os.path.normpath(main_file(tmp_path / "p.pb.gz")) == str(called)


def test_a_program_that_executes_itself_is_named_by_its_file(tmp_path):
    program = compile_program("phases")
    by_descriptor = "import os, sys; os.execve(os.open(sys.argv[1], 0), sys.argv[1:], os.environ)"
    done = subprocess.run(
        [sys.executable, "-c", by_descriptor, program],
        input="\n", stdout=subprocess.PIPE, text=True,
        env=environment(f"profile:{tmp_path}/%e.pb.gz,{FINE}"), timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert main_file(tmp_path / f"{program.name}.pb.gz") == str(program)


def test_a_killed_process_leaves_its_statistics(tmp_path):
    """Those of the last writing, and of its peak; a line that was being written is never seen."""
    path = tmp_path / "s.json"
    with phases(f"stats:{path},stats_flush:100ms") as program:

        def settled():
            if not path.exists():
                return None
            document = json.loads(path.read_text())
            return document if document["stats"]["allocated"] < 8 * MIB else None

        until(settled)
        os.kill(program.pid, signal.SIGKILL)
        program.wait(timeout=60)
    document = json.loads(path.read_text())
    assert document["stats"]["allocated"] > 3 * MIB
    assert document["peak"]["stats"]["allocated"] > 30 * MIB
    assert document["peak"]["stats"].keys() == document["stats"].keys()
    assert 0 <= document["peak"]["seconds"] <= document["seconds"]


def test_statistics_at_exit_hold_those_of_the_peak(tmp_path):
    path = tmp_path / "s.json"
    with phases(f"stats:{path}"):
        pass
    assert json.loads(path.read_text())["peak"]["stats"]["allocated"] > 30 * MIB
    text = report(path).stdout
    assert "At the peak" in text


@pytest.mark.parametrize(
    "way", ["pid", "address", "url", "socket", "pid with a socket", "only a pid"]
)
def test_a_running_process_is_reported(tmp_path, way):
    conf = f"http:unix:{tmp_path}/h,{FINE}"
    if way == "url":
        conf = f"http:127.0.0.1:0,{FINE}"
    if way in ("socket", "pid with a socket"):
        conf = f"control:{tmp_path}/c,profile:{tmp_path}/p,{FINE}"
    if way == "only a pid":
        conf = ""
    with phases(conf) as program:
        target = {
            "address": f"unix:{tmp_path}/h", "socket": f"{tmp_path}/c",
        }.get(way, str(program.pid))  # fmt: skip
        if way == "url":
            from llamalloc.running import published

            target = f"http://{published.read(program.pid).text('http')}/"
        done = report(target)
    assert done.returncode == 0, done.stderr
    assert "phases" in done.stdout and "Where the memory is" in done.stdout
    if way == "only a pid":
        assert "Who allocated most" not in done.stdout
        (said,) = done.stderr.splitlines()
        assert "no call sites" in said and "--attach PID --for 5m` will show" in said
        assert "restart it with the option http:127.0.0.1:0 or control:" in said
        for unknown in ("resident:", "metadata:", "model none", "No page is pinned"):
            assert unknown not in done.stdout
    else:
        assert "Who allocated most" in done.stdout and "crest" in done.stdout
        assert done.stderr == ""


@pytest.mark.parametrize("target", ["4194303", "127.0.0.1:1", "unix:/nowhere"])
def test_who_is_not_there_gets_one_line(target):
    done = report(target)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and target in done.stderr

# SPDX-License-Identifier: Apache-2.0
"""`llamalloc record --attach`: a process that runs is sampled, or one line says what to do."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from live_test import Plain

from llamalloc.formats import profile
from llamalloc.running import control

NOBODY = 65534


def record(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llamalloc.cli", "record", *map(str, words)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def busy(program: Plain, stop: threading.Event) -> threading.Thread:
    def work() -> None:
        while not stop.is_set():
            program.do("churn 3000 2000")
            program.do("keep 1000 100")

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("conf", ["control:{}/c", "http:unix:{}/h,sample_interval:4KiB"])
def test_what_happens_meanwhile_is_recorded(conf: str, tmp_path: Path):
    program, stop = Plain(conf.format(tmp_path)), threading.Event()
    try:
        program.do("keep 50000 2000")  # before: no part of it
        worker = busy(program, stop)
        path = tmp_path / "p.%p.pb.gz"
        words = ("--attach", program.pid, "--for", "1s", "--interval", "4KiB")
        done = record("-o", path, *words)
        stop.set()
        worker.join()
        assert done.returncode == 0, done.stderr
        found = profile.read(tmp_path / f"p.{program.pid}.pb.gz")
        assert {c.bytes for c in found.contexts if c.sampled > 5} == {1024, 3072}
        assert found.duration_ns < 60e9
        if "control" in conf:
            assert control.ask(tmp_path / "c", "get sample_interval") == f"{2 << 20}\n"
    finally:
        stop.set()
        program.close()


def test_the_process_need_not_be_able_to_write_there(tmp_path: Path):
    """Its own socket's folder is enough."""
    own = Path("/tmp") / f"attach_test.{os.getpid()}"
    own.mkdir(mode=0o755)
    shutil.chown(own, NOBODY)
    program = None
    try:
        program = Plain(f"control:{own}/c", user=NOBODY)
        program.do("keep 1000 1")
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        stop = threading.Event()
        worker = busy(program, stop)
        words = ("--attach", program.pid, "--for", "500ms", "--interval", "4KiB")
        done = record("-o", closed / "p", *words)
        stop.set()
        worker.join()
        assert done.returncode == 0, done.stderr
        assert profile.read(closed / "p").contexts
        assert sorted(f.name for f in own.iterdir()) == ["c"]
    finally:
        if program is not None:
            program.close()
        shutil.rmtree(own)


def test_without_an_address_it_says_what_to_do(tmp_path: Path):
    program = Plain()
    try:
        said = one_line(record("-o", tmp_path / "p", "--attach", program.pid, "--for", "1s"), 3)
        assert "restart it with the option control:" in said
    finally:
        program.close()


def test_without_the_library_it_says_what_to_do(tmp_path: Path):
    program = Plain(preloaded=False)
    try:
        said = one_line(record("-o", tmp_path / "p", "--attach", program.pid, "--for", "1s"), 3)
        assert "llamalloc record -o P.pb.gz --for 5m -- PROGRAM" in said
    finally:
        program.close()


def test_a_process_that_ends_meanwhile_is_told(tmp_path: Path):
    for conf in (f"control:{tmp_path}/c", f"http:unix:{tmp_path}/h"):
        program = Plain(conf)
        killer = threading.Timer(2.5, program.process.kill)
        killer.start()
        done = record("-o", tmp_path / "p", "--attach", program.pid, "--for", "1h")
        killer.join()
        program.close()
        said = one_line(done, 1)
        assert "ended" in said and "nothing was recorded" in said


def test_no_such_process(tmp_path: Path):
    gone = subprocess.run(["true"], check=True) and 4_000_000
    said = one_line(record("-o", tmp_path / "p", "--attach", gone, "--for", "1s"), 1)
    assert "no such process" in said


def test_no_permission(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    program = Plain(f"control:{tmp_path}/c")
    try:
        code = "import os, sys; os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
        words = ("record", "-o", "/tmp/never", "--attach", str(program.pid), "--for", "1s")
        done = subprocess.run(
            [sys.executable, "-c", code, sys.executable, "-m", "llamalloc.cli", *words],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert "use sudo" in one_line(done, 1)
    finally:
        program.close()


@pytest.mark.parametrize(("words", "said"), [
    (("--attach", "1"), "--for TIME is missing"),
    (("--attach", "1", "--for", "5 days"), "write it like 30s, 5m or 1h"),
    (("--attach", "1", "--for", "5m", "--control", "/c"), "not both"),
    (("--attach", "1", "--for", "5m", "--", "true"), "do not give a program too"),
])  # fmt: skip
def test_wrong_use(words: tuple[str, ...], said: str, tmp_path: Path):
    assert said in one_line(record("-o", tmp_path / "p", *words), 2)

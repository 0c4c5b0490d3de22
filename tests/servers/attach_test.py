# SPDX-License-Identifier: Apache-2.0
"""`llamalloc record --attach`: a process that runs is sampled, or one line says what to do."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live_test import Plain

from llamalloc.formats import profile
from llamalloc.running import control, published

NOBODY = 65534
DEFAULT = 2 << 20  # bytes: the interval where `control` alone asks for samples


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "llamalloc.cli", "record", *map(str, words)]


def record(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def started(*words: object) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True) as recorder:
        try:
            yield recorder
        finally:
            recorder.kill()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def interval(program: Plain) -> int:
    """The one that is really used."""
    return published.read(program.pid).number("profiler.interval")


def asked(path: Path) -> bool:
    """Whether a client is connected to this socket."""
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return any(row[5] == "03" and row[-1] == str(path) for row in rows)


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
            assert control.ask(tmp_path / "c", "get sample_interval") == "0\n"
            assert interval(program) == DEFAULT
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
        words = ("-o", tmp_path / "p", "--attach", program.pid, "--for", "1h")
        with started(*words) as recorder:
            until(lambda p=program: asked(tmp_path / "h") or interval(p) == 64 << 10)
            program.process.kill()
            said = recorder.communicate(timeout=60)[1]
        program.close()
        assert recorder.returncode == 1 and said.count("\n") == 1, said
        assert "ended" in said and "nothing was recorded" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_is_ended_leaves_the_process_as_it_was(number: signal.Signals, tmp_path: Path):
    program = Plain(f"control:{tmp_path}/c")
    try:
        until(lambda: interval(program) == DEFAULT)
        words = ("-o", tmp_path / "p", "--attach", program.pid, "--for", "1h")
        with started(*words) as recorder:
            until(lambda: interval(program) == 64 << 10)
            recorder.send_signal(number)
            recorder.communicate(timeout=60)
        assert recorder.returncode == 128 + number
        assert interval(program) != 64 << 10
    finally:
        program.close()


def test_one_records_at_a_time(tmp_path: Path):
    """Over the control socket the window of a process is one."""
    program = Plain(f"control:{tmp_path}/c")
    try:
        until(lambda: interval(program) == DEFAULT)
        words = ("-o", tmp_path / "p", "--attach", program.pid, "--for")
        with started(*words, "1h") as recorder:
            until(lambda: interval(program) == 64 << 10)
            for other in (words[2:4], ("--control", tmp_path / "c")):
                said = one_line(record("-o", tmp_path / "q", *other, "--for", "100ms"), 1)
                assert "is being recorded" in said
            assert interval(program) == 64 << 10
            recorder.terminate()
            recorder.communicate(timeout=60)
        assert interval(program) != 64 << 10
    finally:
        program.close()


def test_the_reason_of_the_process_is_told(tmp_path: Path):
    program = Plain(f"control:{tmp_path}/c")
    try:
        with started("-o", tmp_path / "p", "--attach", program.pid, "--for", "3s") as recorder:
            until(lambda: interval(program) == 64 << 10)
            until(lambda: taken(tmp_path / "c", tmp_path / "other"))
            said = recorder.communicate(timeout=60)[1]
        assert recorder.returncode == 1 and "no window is open" in said
    finally:
        program.close()


def taken(socket: Path, profile: Path) -> bool:
    """Somebody else has the window written, so it is closed."""
    try:
        control.ask(socket, f"window {profile}")
    except control.ControlError:
        return False  # not open yet
    return True


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


def test_a_window_that_somebody_opened_by_hand_is_left_alone(tmp_path: Path):
    """Opened before: one line that says how to end it. Opened meanwhile: it is theirs."""
    program = Plain(f"control:{tmp_path}/c,sample_interval:4KiB")
    words = ("-o", tmp_path / "p", "--attach", program.pid, "--for")
    try:
        control.ask(tmp_path / "c", "window open")
        program.do("keep 1000 100")
        said = one_line(record(*words, "1s"), 1)
        assert "somebody records by hand" in said and "`window close`" in said
        control.ask(tmp_path / "c", f"window {tmp_path}/own")
        assert profile.read(tmp_path / "own").contexts
        assert control.ask(tmp_path / "c", "get window") == "0\n"

        with started(*words, "10s") as recorder:
            until(lambda: control.ask(tmp_path / "c", "get window") != "0\n")
            time.sleep(3.0)  # it knows by then that its own is open
            control.ask(tmp_path / "c", "window open")
            said = recorder.communicate(timeout=60)[1]
        assert recorder.returncode == 1 and said.count("\n") == 1, said
        assert "opened a window meanwhile" in said
        assert control.ask(tmp_path / "c", "get window") != "0\n"
        assert not (tmp_path / "p").exists()

        control.ask(tmp_path / "c", "window close")
        with started(*words, "1h") as recorder:
            until(lambda: control.ask(tmp_path / "c", "get window") != "0\n")
            recorder.terminate()
            recorder.communicate(timeout=60)
        assert control.ask(tmp_path / "c", "get window") == "0\n"  # its own is closed
    finally:
        program.close()

# SPDX-License-Identifier: Apache-2.0
"""Raised privileges and the control socket: nothing for others to read, write or connect to."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from preload import build_targets, environment, library
from trap_list import PROGRAMS

from llamalloc.running import control

HERE = Path(__file__).parent
NOBODY = 65534


def install_raised(folder: Path, *flags: str) -> Path:
    """A program with the library linked in that runs as another user than who starts it."""
    program = folder / "raised"
    link = ["-L", str(folder), "-Wl,--no-as-needed", "-lllamalloc", f"-Wl,-rpath,{folder}"]
    compiler = ["gcc", *flags, HERE / "raised.c", "-o", program, *link]
    subprocess.run(compiler, check=True, timeout=60)
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    return program


@pytest.fixture
def folder():
    """Where another user can read, other than in tmp_path; with the library."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a program of another user's")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"{folder} is mounted nosuid")
    shutil.copy(library(), folder / "libllamalloc.so")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def raised(folder: Path) -> Path:
    return install_raised(folder)


def run_raised(program: Path, conf: str, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LLAMALLOC_CONF": conf}
    return subprocess.run(
        [program, *words], env=env, capture_output=True, text=True, timeout=20, check=False
    )


def test_raised_privileges_ignore_the_environment(raised):
    folder = raised.parent
    before = sorted(folder.iterdir())
    options = ("stats", "profile", "control", "model", "conf_file", "learn")
    conf = ",".join(f"{option}:{folder}/{option}" for option in options)
    done = run_raised(raised, f"{conf},http:unix:{folder}/http,confirm_conf:on,hard_limit:1MiB")
    assert (done.returncode, done.stdout) == (0, "AT_SECURE 1\n")
    (line,) = done.stderr.splitlines()
    assert "LLAMALLOC_CONF" in line and "raised privileges" in line
    assert sorted(folder.iterdir()) == before


def test_raised_privileges_end_with_a_misuse_whatever_the_environment_says(raised):
    done = run_raised(raised, "on_misuse:report", "twice")
    assert (done.returncode, done.stdout) == (-signal.SIGABRT, "AT_SECURE 1\n")
    raised.chmod(0o755)
    done = run_raised(raised, "on_misuse:report", "twice")
    assert (done.returncode, done.stdout) == (0, "AT_SECURE 0\nfreed twice\n")


def test_raised_privileges_take_what_the_program_itself_says_but_no_path(folder):
    program = install_raised(folder, f'-DCONF="on_misuse:report,stats:{folder}/stats"')
    done = run_raised(program, "on_misuse:abort", "twice")
    assert (done.returncode, done.stdout) == (0, "AT_SECURE 1\nfreed twice\n")
    assert len([line for line in done.stderr.splitlines() if "raised privileges" in line]) == 2
    assert not (folder / "stats").exists()


def test_the_same_program_without_them_takes_paths(raised):
    raised.chmod(0o755)
    stats = raised.parent / "stats"
    conf = {"LLAMALLOC_CONF": f"stats:{stats}"}
    subprocess.run([raised], env={**os.environ, **conf}, check=True, timeout=20)
    assert stats.stat().st_size > 0


def test_the_control_socket_is_its_owners(tmp_path):
    """Whatever the umask of the program."""
    path = tmp_path / "socket"
    process = subprocess.Popen(
        ["/bin/sh", "-c", "echo started; exec sleep 20"],
        env=environment(f"control:{path}"),
        stdout=subprocess.PIPE,
        umask=0,
    )
    try:
        assert process.stdout.readline() == b"started\n"
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def listening(path: Path, **extra: str) -> Iterator[subprocess.Popen]:
    """A process that does nothing, under the library with a control socket at `path`."""
    process = subprocess.Popen(["sleep", "60"], env=environment(f"control:{path}", **extra))
    try:
        end = time.monotonic() + 10
        while not somebody_listens(path) and time.monotonic() < end:
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.wait()


def client(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def somebody_listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def test_a_client_that_drips_bytes_does_not_hold_the_worker(tmp_path):
    """A byte now and then, never a line: the library ends the talk and answers the next."""
    with listening(tmp_path / "socket") as process, closing(client(tmp_path / "socket")) as slow:
        sent = 0
        try:
            for sent in range(200):  # noqa: B007
                slow.send(b"p")
                time.sleep(0.1)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert sent < 150
        assert "pid" in control.ask(tmp_path / "socket", "ping")
        assert process.poll() is None


def test_endless_bytes_end_in_an_error(tmp_path):
    with listening(tmp_path / "socket") as process, closing(client(tmp_path / "socket")) as endless:
        try:
            while True:
                endless.sendall(b"x" * 65536)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert "pid" in control.ask(tmp_path / "socket", "ping")
        assert process.poll() is None


def test_the_end_of_one_process_leaves_the_socket_of_another(tmp_path):
    """Two that were given the same path: the later one has it, and keeps it."""
    path = tmp_path / "socket"
    first = subprocess.Popen(["sleep", "3"], env=environment(f"control:{path}"))
    while not path.is_socket():
        time.sleep(0.01)
    path.unlink()
    with listening(path):
        assert first.wait(20) == 0
        assert path.is_socket()
        assert "pid" in control.ask(path, "ping")


@pytest.mark.parametrize("option", ["control:", "http:unix:"])
def test_what_is_no_socket_is_left_alone_and_named(tmp_path, option):
    (tmp_path / "file").write_text("of the user")
    for path in (tmp_path / "file", tmp_path):
        done = subprocess.run(
            ["true"], env=environment(f"{option}{path}"), capture_output=True, text=True, check=True
        )
        assert f"{path}: cannot open it: File exists; continuing without it" in done.stderr
    assert (tmp_path / "file").read_text() == "of the user"


def test_a_child_leaves_its_parent_the_socket(tmp_path):
    """It inherits the option; one that a dead process left is taken over."""
    path = tmp_path / "socket"
    with listening(path) as parent:
        done = subprocess.run(
            ["true"], env=environment(f"control:{path}"), capture_output=True, text=True, check=True
        )
        assert f"{path}: another process already listens there" in done.stderr
        assert str(parent.pid) in control.ask(path, "ping")
    assert path.is_socket(), "killed, it left its socket"
    with listening(path) as next_one:
        assert str(next_one.pid) in control.ask(path, "ping")


def test_the_socket_follows_no_link(tmp_path):
    """What a link at the path points to keeps its mode; the complaint names the path."""
    victim, path = tmp_path / "victim", tmp_path / "socket"
    victim.write_text("precious")
    victim.chmod(0o644)
    path.symlink_to(victim)
    done = subprocess.run(
        ["true"], env=environment(f"control:{path}"), capture_output=True, text=True, check=True
    )
    assert str(path) in done.stderr
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("option", ["profile", "stats", "control"])
def test_numbers_of_standard_files_are_the_programs(tmp_path, option):
    """A program that closed them and opens its own gets 0, 1 and 2, and its output its own file."""
    build_targets("trap_closed_files")
    out = tmp_path / "out"
    conf = f"{option}:{tmp_path}/ours,profile_flush:100ms,sample_interval:4096"
    done = subprocess.run([PROGRAMS / "closed_files", out], env=environment(conf), timeout=20)
    assert done.returncode == 0
    assert out.read_text() == "ok\n"


def test_nothing_is_inherited_by_what_the_program_starts(tmp_path):
    """Every descriptor of ours closes at exec."""
    conf = f"control:{tmp_path}/socket,profile:{tmp_path}/p,stats:{tmp_path}/s"
    script = "exec ls -l /proc/self/fd"
    done = subprocess.run(
        ["bash", "-c", script],
        env=environment(conf),
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    )
    # The program's own control socket is the one that `ls`, under the library too, opened itself.
    assert done.stdout.count("socket:") == 1

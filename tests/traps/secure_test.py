# SPDX-License-Identifier: Apache-2.0
"""Raised privileges and the control socket: nothing for others to read, write or connect to."""

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from preload import environment, library

HERE = Path(__file__).parent
NOBODY = 65534


@pytest.fixture
def raised():
    """A program with the library linked in that runs as another user than who starts it."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a program of another user's")
    folder = Path(tempfile.mkdtemp())  # where that user can read, other than in tmp_path
    folder.chmod(0o777)
    if os.statvfs(folder).f_flag & os.ST_NOSUID:
        pytest.skip(f"{folder} is mounted nosuid")
    shutil.copy(library(), folder / "libllamalloc.so")
    program = folder / "raised"
    link = ["-L", str(folder), "-Wl,--no-as-needed", "-lllamalloc", f"-Wl,-rpath,{folder}"]
    subprocess.run(["gcc", HERE / "raised.c", "-o", program, *link], check=True, timeout=60)
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    yield program
    shutil.rmtree(folder)


def test_raised_privileges_ignore_paths(raised):
    folder = raised.parent
    before = sorted(folder.iterdir())
    options = ("stats", "profile", "control", "model", "conf_file")
    conf = ",".join(f"{option}:{folder}/{option}" for option in options) + ",retain:1MiB"
    done = subprocess.run(
        [raised],
        env={**os.environ, "LLAMALLOC_CONF": conf},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "AT_SECURE 1\n")
    lines = done.stderr.splitlines()
    assert len(lines) == len(options)
    assert all("raised privileges" in line for line in lines)
    assert sorted(folder.iterdir()) == before


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

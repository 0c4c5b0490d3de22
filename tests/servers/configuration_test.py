# SPDX-License-Identifier: Apache-2.0
"""LLAMALLOC_CONF with values that cannot be meant: one warning line each, and the program runs."""

import socket
import subprocess
from contextlib import closing

import pytest
from preload import environment, run


def complaints(conf: str, program: str = "echo alive") -> list[str]:
    """Lines that the library wrote while a shell ran `program` with `conf`."""
    done = subprocess.run(
        ["/bin/bash", "-c", program],
        env=environment(conf),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")
    return [line for line in done.stderr.splitlines() if line.startswith("llamalloc:")]


@pytest.mark.parametrize(
    ("conf", "named"),
    [
        ("no_such_option:1", "no_such_option"),
        ("sample_interval:lots", "sample_interval"),
        ("release_delay:-5s", "release_delay"),
        ("retain:99999999999999999999999", "retain"),
        ("hugepages:maybe", "hugepages"),
        ("garbage", "garbage"),
        ("model:/nonexistent/x.model", "/nonexistent/x.model"),
        ("model:/proc/self/exe", "/proc/self/exe"),
        ("profile:/nonexistent/p.pb.gz", "/nonexistent/p.pb.gz"),
        ("stats:/nonexistent/s.json", "/nonexistent/s.json"),
        ("control:/nonexistent/socket", "/nonexistent/socket"),
    ],
)
def test_bad_value_is_named_once(conf, named):
    lines = complaints(conf)
    assert len(lines) == 1, lines
    assert named in lines[0]


@pytest.mark.parametrize("conf", ["", "stats_print:off", "retain:16MiB,release_delay:250ms"])
def test_good_values_are_silent(conf):
    assert complaints(conf) == []


def test_one_bad_value_does_not_hide_the_good_ones(tmp_path):
    stats = tmp_path / "s.json"
    assert len(complaints(f"bogus:1,stats:{stats}")) == 1
    assert stats.stat().st_size > 0


@pytest.mark.parametrize("option", ["profile", "stats"])
def test_full_disk_costs_one_line(tmp_path, option):
    """A file-size limit of 0 with its signal ignored: every write fails, as on a full disk."""
    path = tmp_path / "out"
    limited = f"trap '' XFSZ; ulimit -f 0; LLAMALLOC_CONF={option}:{path} exec bash -c 'echo alive'"
    lines = complaints("", limited)
    assert len(lines) == 1, lines
    assert str(path) in lines[0]
    assert not path.exists()


@pytest.mark.parametrize("option", ["profile", "stats"])
def test_path_that_is_no_file_stays_what_it_is(tmp_path, option):
    """Renaming a finished file over /dev/null, as root, would take it from the whole system."""
    path = tmp_path / "socket"
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        complaints(f"{option}:{path}")
        assert path.is_socket()


def test_very_long_configuration_is_harmless():
    assert len(complaints("x" * 100_000)) <= 1


def test_subprocesses_inherit_quietly(tmp_path):
    run(["bash", "-c", "for i in 1 2 3; do /bin/true; done"], seconds=20,
        conf=f"stats:{tmp_path}/s.json")  # fmt: skip

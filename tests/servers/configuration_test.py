# SPDX-License-Identifier: Apache-2.0
"""LLAMALLOC_CONF with values that cannot be meant: one warning line each, and the program runs."""

import os
import re
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from preload import environment, run

GOLDEN_MODEL = Path(__file__).parents[2] / "contracts/golden/model_v3.safetensors"


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
        ("conf_file:/nonexistent/conf", "/nonexistent/conf"),
        ("control:/nonexistent/socket", "/nonexistent/socket"),
        ("control:on", "expected a path"),
        ("http:on", "127.0.0.1:PORT"),
    ],
)
def test_bad_value_is_named_once(conf, named):
    lines = complaints(conf)
    assert len(lines) == 1, lines
    assert named in lines[0]


def test_a_model_without_a_background_thread_names_the_option():
    (line,) = complaints(f"worker:off,model:{GOLDEN_MODEL}")
    assert str(GOLDEN_MODEL) in line and "worker:off" in line


@pytest.mark.parametrize("conf", ["", "stats_print:off", "retain:16MiB,release_delay:250ms"])
def test_good_values_are_silent(conf):
    assert complaints(conf) == []


def test_one_bad_value_does_not_hide_the_good_ones(tmp_path):
    stats = tmp_path / "s.json"
    assert len(complaints(f"bogus:1,stats:{stats}")) == 1
    assert stats.stat().st_size > 0


@pytest.mark.parametrize("option", ["profile", "stats"])
def test_an_unwritable_path_is_named_at_the_start(tmp_path, option):
    """Before the program's first word: the path, the cause and the cure; and nothing is made."""
    path = tmp_path / "no" / "out"
    lines = complaints(f"{option}:{path}", "echo 'llamalloc: started' >&2; echo alive; exit")
    assert lines[1:] == ["llamalloc: started"], lines
    for part in (str(path), "No such file or directory", f"{option}:PATH"):
        assert part in lines[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["profile", "stats"])
def test_a_path_is_looked_at_and_not_touched(tmp_path, option):
    """A program that is killed leaves the file of an earlier run as it was."""
    path = tmp_path / "out"
    path.write_text("an earlier run")
    shell = ["/bin/bash", "-c", "kill -9 $$"]
    subprocess.run(shell, env=environment(f"{option}:{path}"), timeout=20, check=False)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert path.read_text() == "an earlier run"


@pytest.mark.parametrize("option", ["profile", "stats"])
def test_a_folder_made_later_is_written_to(tmp_path, option):
    path = tmp_path / "later" / "out"
    assert len(complaints(f"{option}:{path}", f"mkdir {path.parent}; echo alive; exit")) >= 1
    assert path.stat().st_size > 0


@pytest.mark.parametrize("option", ["profile", "stats"])
def test_a_limit_on_file_sizes_costs_one_line(tmp_path, option):
    """The limit's signal would end the program."""
    path = tmp_path / "out"
    limited = f"ulimit -f 1; LLAMALLOC_CONF={option}:{path},sample_interval:64 exec bash -c '"
    lines = complaints("", limited + ": {1..20000}; echo alive'")
    if path.exists():  # it was short enough, at least when it was written first
        assert path.stat().st_size <= 1024 and len(lines) <= 1
    else:
        assert len(lines) == 1
    assert all("File too large" in line for line in lines)


@pytest.mark.parametrize("option", ["profile", "stats"])
def test_a_full_device_costs_one_line(option):
    (line,) = complaints(f"{option}:/dev/full")
    assert "No space left on device" in line


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


def options_read(conf: str, program: str = "echo alive") -> dict[str, str]:
    """What the library says it understood, in the program that `program` becomes at last."""
    lines = complaints(f"{conf},confirm_conf:on", program)
    return dict(re.findall(r"^llamalloc: option (\w+) = (.*)$", "\n".join(lines), re.MULTILINE))


def test_a_file_of_options(tmp_path):
    """The environment wins over the file, and the file may hold what a string cannot."""
    file = tmp_path / "llamalloc.conf"
    file.write_text(f"# a server\nretain: 16MiB\nrelease_delay: 250ms\nstats: {tmp_path}/a,b\n")
    found = options_read(f"retain:4MiB,conf_file:{file}")
    assert found["retain"] == str(4 << 20)
    assert found["release_delay"] == str(250_000_000)
    assert (tmp_path / "a,b").stat().st_size > 0


def test_a_program_compiled_with_options_and_a_file(tmp_path):
    """The weak symbol comes first, the file wins over it, the environment over both."""
    file = tmp_path / "llamalloc.conf"
    file.write_text("retain:2MiB\nsample_interval:2MiB\n")
    conf = f"conf_file:{file},retain:1MiB,sample_interval:1MiB,predict_recheck:1MiB,wrong:1"
    source = tmp_path / "main.c"
    main = '#include <stdio.h>\nint main(void) { puts("alive"); }\n'
    source.write_text(f'const char* llamalloc_conf = "{conf}";\n{main}')
    program = tmp_path / "main"
    subprocess.run(["gcc", "-rdynamic", source, "-o", program], check=True, timeout=60)
    (wrong,) = complaints("", f"exec {program}")
    assert "llamalloc_conf" in wrong and "wrong:1" in wrong
    found = options_read("sample_interval:3MiB", f"exec {program}")
    names = ("retain", "sample_interval", "predict_recheck")
    assert [int(found[name]) >> 20 for name in names] == [2, 3, 1]


def _folder(path):
    path.mkdir()


def _large(path):
    path.write_text("#" * (64 * 1024 + 1))


@pytest.mark.parametrize(
    ("make", "cause"),
    [
        (lambda path: None, "No such file"),
        (_folder, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (_large, "larger than 64 KiB"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda path: path.write_bytes(b"retain:1MiB\n\0\xff\n"), ":2: "),
        (lambda path: path.write_text("x:" + "y" * 60_000), ":1: "),
    ],
)
def test_a_bad_file_of_options_costs_one_line(tmp_path, make, cause):
    path = tmp_path / "conf"
    make(path)
    lines = complaints(f"conf_file:{path}")
    assert len(lines) == 1, lines
    assert str(path) in lines[0] and cause in lines[0]


def test_an_unreadable_file_of_options_costs_one_line(tmp_path):
    path = tmp_path / "conf"
    path.write_text("retain:1MiB\n")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root reads every file")
    (line,) = complaints(f"conf_file:{path}")
    assert "Permission denied" in line


def test_very_long_configuration_is_harmless():
    assert len(complaints("x" * 100_000)) <= 1


def test_subprocesses_inherit_quietly(tmp_path):
    run(["bash", "-c", "for i in 1 2 3; do /bin/true; done"], seconds=20,
        conf=f"stats:{tmp_path}/s.json")  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Where a program keeps what it learns: what cannot work is told before the program starts."""

import os
import stat
from pathlib import Path

import pytest

from llamalloc.cli import call
from llamalloc.formats import learned_state
from llamalloc.formats.learned_state import LearnedState, Node
from llamalloc.running import launch, learn_place

NODES = (Node(1, 1, deaths=(40, 0, 0, 0, 0, 0, 0)),)
SHELL = Path("/bin/sh").resolve().name


def a_state(path: Path, name: str) -> Path:
    path.write_bytes(learned_state.pack(LearnedState(1, name, 1, nodes=NODES)))
    return path


def complaint(place: str, name: str = "server") -> str:
    with pytest.raises(launch.LaunchError) as caught:
        learn_place.checked(place, name)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_folder_holds_a_file_for_each_program(tmp_path: Path) -> None:
    assert learn_place.file_of(str(tmp_path), "a b/c") == tmp_path / "a_b_c.learned"
    assert learn_place.file_of(str(tmp_path / "s.learned"), "x") == tmp_path / "s.learned"
    assert learn_place.file_of("/none/", "x") == Path("/none/x.learned")
    assert len(learn_place.file_of("/none/", "x" * 300).name) == 199 + len(".learned")


def test_good_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for word in ("on", "off", "TRUE", "0"):
        assert learn_place.checked(word, "server") == word
    assert learn_place.checked(f"{tmp_path}/", "server") == f"{tmp_path}/"
    monkeypatch.chdir(tmp_path)
    assert learn_place.checked("new.learned", "server") == str(tmp_path / "new.learned")
    a_state(tmp_path / "server.learned", "server")
    assert learn_place.checked(".", "server") == str(tmp_path)
    a_state(tmp_path / "program.learned", "another")
    assert learn_place.checked(".", "") == str(tmp_path)
    assert learn_place.checked("server.learned", "") == str(tmp_path / "server.learned")


def test_a_long_name_is_known_by_its_beginning(tmp_path: Path) -> None:
    name = "a-program-with-a-name-of-more-than-31-bytes"
    a_state(tmp_path / "s", name[:31])
    assert learn_place.checked(str(tmp_path / "s"), name)


def test_a_missing_folder_is_told_with_the_command_that_makes_it(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    assert f"mkdir -p {missing}" in complaint(f"{missing}/")
    assert f"mkdir -p {missing}" in complaint(f"{missing}/server.learned")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_others(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert "not writable" in complaint(str(tmp_path))


def test_a_folder_that_refuses_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)
    assert "not writable" in complaint(str(tmp_path))


def test_what_is_no_state_file_of_this_program_is_left_alone(tmp_path: Path) -> None:
    other = a_state(tmp_path / "other", "redis-server")
    assert learn_place.checked(str(other), "server") == str(other)
    told = learn_place.note(str(other), "server")
    assert "learned in redis-server; if server does not start that, name another file" in told
    assert learn_place.note(str(other), "redis-server") == ""
    assert learn_place.note(str(tmp_path), "server") == learn_place.note("on", "server") == ""
    text = tmp_path / "notes.txt"
    text.write_text("mine")
    assert "not a state file" in complaint(str(text))
    (tmp_path / "fifo").mkdir()
    os.mkfifo(tmp_path / "fifo" / "f")
    assert "not a regular file" in complaint(str(tmp_path / "fifo" / "f"))


def test_another_version_is_told(tmp_path: Path) -> None:
    file = a_state(tmp_path / "s", "server")
    data = bytearray(file.read_bytes())
    data[8] = 99
    file.write_bytes(data)
    assert "version 99, not 1 or 2; remove it" in complaint(str(file))


def test_a_damaged_file_is_no_obstacle(tmp_path: Path) -> None:
    """The library says so, and writes a new one."""
    file = a_state(tmp_path / "s", "server")
    file.write_bytes(file.read_bytes()[:-1])
    assert learn_place.checked(str(file), "server") == str(file)
    file.write_bytes(b"")
    assert learn_place.checked(str(file), "server") == str(file)


def test_too_long_a_path() -> None:
    assert "file name too long" in complaint("/" + "x" * 1200)
    assert "longer than 1000 bytes" in complaint("/" + "x/" * 600)


# ----- llamalloc run -----


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What LLAMALLOC_CONF would be of the programs that are started."""
    found: list[str] = []
    library = tmp_path / launch.LIBRARY
    library.write_bytes(Path("/bin/sh").read_bytes())  # an ELF file
    monkeypatch.setenv("LLAMALLOC_LIBRARY", str(library))
    monkeypatch.delenv("LLAMALLOC_CONF", raising=False)
    monkeypatch.setattr(os, "execve", lambda _, __, env: found.append(env["LLAMALLOC_CONF"]))
    return found


def test_run_passes_both_options_on(started: list[str], tmp_path: Path) -> None:
    assert call(["run", "--learn", str(tmp_path), "--segregate", "never", "--", "sh"]) == 0
    assert call(["run", "--learn", "on", "--", "sh"]) == 0
    assert started == [f"learn:{tmp_path},segregate:never", "learn:on"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--learn", "/none/x/"], "mkdir -p /none/x"),
        (["--learn", "/none/x/s.learned"], "mkdir -p /none/x"),
        (["--segregate", "sometimes"], "auto"),
        (["--conf", "learn:/none/x/"], "mkdir -p /none/x"),
    ],
)
def test_run_refuses_in_one_line(
    started: list[str], capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert call(["run", *words, "--", "sh"]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and err.startswith("llamalloc: ")
    assert started == []


def test_run_knows_whose_state_it_is(
    started: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a script, the interpreter learns. What starts the program (env, numactl, a shell) is told,
    and starts it."""
    a_state(tmp_path / "s", SHELL)
    assert call(["run", "--learn", str(tmp_path / "s"), "--", "sh"]) == 0
    assert capsys.readouterr().err == ""
    assert call(["run", "--learn", str(tmp_path / "s"), "--", "env"]) == 0
    assert f"learned in {SHELL}; if env does not start that" in capsys.readouterr().err
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert call(["run", "--learn", str(tmp_path / "s"), "--", str(script)]) == 0
    assert len(started) == 3


def test_the_help_teaches_learning(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["run", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--learn" in out and "--segregate" in out and "learning.md" in out

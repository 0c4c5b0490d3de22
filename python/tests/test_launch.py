# SPDX-License-Identifier: Apache-2.0
"""Starting programs: which are refused and why, and what environment the others get."""

import os
from pathlib import Path

import pytest
from support.programs import OWN_MALLOC, TRIVIAL, compiled

from llamalloc.running import launch
from llamalloc.running.launch import LaunchError

LIBRARY = Path("/bin/sh").resolve()  # an ELF file


def refused(program: Path) -> str:
    with pytest.raises(LaunchError) as caught:
        launch.checked(str(program))
    return str(caught.value)


def test_an_ordinary_program_and_a_script_are_accepted(tmp_path: Path) -> None:
    program = compiled(tmp_path / "p", TRIVIAL)
    assert launch.checked(str(program)) == program
    script = tmp_path / "s"
    script.write_text(f"#!{program} -x\n")
    script.chmod(0o755)
    assert launch.checked(str(script)) == script
    assert launch.loaded_file(script) == program


def test_static_and_own_malloc_are_refused_with_a_cure(tmp_path: Path) -> None:
    assert "statically linked" in refused(compiled(tmp_path / "s", TRIVIAL, "-static"))
    message = refused(compiled(tmp_path / "m", OWN_MALLOC))
    assert "own malloc" in message and "link it dynamically" in message


def test_a_script_of_a_static_interpreter_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{compiled(tmp_path / 's', TRIVIAL, '-static')}\n")
    script.chmod(0o755)
    assert "statically linked" in refused(script)


def test_raised_rights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(tmp_path / "p", TRIVIAL)
    program.chmod(0o4755)
    assert launch.obstacle(program) is None  # setuid to ourselves raises nothing
    monkeypatch.setattr(os, "geteuid", lambda: program.stat().st_uid + 1)
    assert "setuid" in refused(program)


def test_missing_and_unexecutable_files_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert "no such file" in refused(tmp_path / "none")
    assert "chmod +x" in refused(tmp_path / "f")
    assert refused(tmp_path).endswith(": is a folder; name the program in it")
    with pytest.raises(LaunchError, match="not found in PATH"):
        launch.checked("surely-no-such-program")


def test_the_environment_holds_the_library_first_and_our_options_last() -> None:
    base = {"LD_PRELOAD": "a.so b.so:c.so", "LLAMALLOC_CONF": "retain:1MiB,worker:off", "X": "y"}
    env = launch.environment(LIBRARY, {"retain": "2MiB", "model": "/m:1"}, base)
    assert env["LD_PRELOAD"] == f"{LIBRARY}:a.so:b.so:c.so"
    assert env["LLAMALLOC_CONF"] == "retain:2MiB,worker:off,model:/m:1"
    assert env["X"] == "y"
    again = launch.environment(LIBRARY, {}, env)
    assert again["LD_PRELOAD"] == env["LD_PRELOAD"]


@pytest.mark.parametrize("text", ["retain", "retane:1", ":", "retain:1,,x:2"])
def test_bad_options_are_refused(text: str) -> None:
    with pytest.raises(LaunchError):
        launch.parse_conf(text)


def test_bad_options_of_the_environment_name_their_variable() -> None:
    with pytest.raises(LaunchError, match=r"^LLAMALLOC_CONF: no option 'retane'"):
        launch.environment(LIBRARY, {}, {"LLAMALLOC_CONF": "retane:1"})


def test_a_library_that_cannot_be_preloaded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader would complain, and run the program without it."""
    for name in ("a b", "a:b"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "l.so").write_bytes(LIBRARY.read_bytes())
        with pytest.raises(LaunchError, match=r"l\.so: LD_PRELOAD holds no path with a space"):
            launch.environment(folder / "l.so", {}, {})
    (tmp_path / "link").symlink_to(tmp_path / "a b")
    monkeypatch.setenv("LLAMALLOC_LIBRARY", str(tmp_path / "link" / "l.so"))
    assert launch.find_library() == tmp_path / "link" / "l.so"
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(LaunchError, match=r"text\.so: not an ELF file; name the built"):
        launch.environment(tmp_path / "text.so", {}, {})


def test_a_comma_in_a_path_is_refused() -> None:
    with pytest.raises(LaunchError, match="comma"):
        launch.environment(LIBRARY, {"model": "/a,b"}, {})


def test_the_named_library_is_taken_or_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMALLOC_LIBRARY", str(tmp_path / "l.so"))
    with pytest.raises(LaunchError, match="no such file"):
        launch.find_library()
    (tmp_path / "l.so").touch()
    assert launch.find_library() == (tmp_path / "l.so").resolve()

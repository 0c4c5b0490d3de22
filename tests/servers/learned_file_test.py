# SPDX-License-Identifier: Apache-2.0
"""The state file where something is wrong with it, or with its place."""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from learned_runs import SECONDS, first_run, learn, one_line, samples, serve, work
from preload import assert_quiet, compile_program, environment

from llamalloc.formats import learned_state
from llamalloc.formats.learned_state import LearnedState


@pytest.fixture(scope="module")
def load() -> Path:
    return compile_program("learned_load")


@pytest.fixture
def state(tmp_path, load) -> Path:
    return first_run(load, tmp_path / "state")


def damages(data: bytes) -> dict[str, bytes]:
    """What may have become of a file that begins as one of ours."""
    flipped = {
        f"bit {at}.{bit}": data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at, bit in [(12, 0), (15, 7), (20, 3), (30, 1), (60, 2), (75, 6), (103, 0), (110, 4)]
    }
    last = len(data) - 1
    flipped["last bit"] = data[:last] + bytes([data[last] ^ 0x80])
    cut = {f"{length} bytes": data[:length] for length in (8, 60, 104, 107, len(data) - 1)}
    more = {"more": data + b"\0", "zeroes": bytes(len(data)), "empty": b""}
    return {**flipped, **cut, **more}


def test_a_damaged_file_is_not_used_and_replaced(load, state):
    for what, data in damages(state.read_bytes()).items():
        state.write_bytes(data)
        one_line(work(load, learn(state)), str(state), "it is not used, and replaced")
        assert learned_state.read(state).runs == 1, what


def test_what_is_not_ours_is_left_alone(load, state):
    good = state.read_bytes()
    another = LearnedState(1, "another", 1, nodes=learned_state.read(state).nodes)
    version = good[:8] + (99).to_bytes(4, "little") + good[12:]
    for data, word in (
        (version, "version 99"),
        (learned_state.pack(another), "learned in the program another"),
        (b"#!/bin/sh\n" + good, "not a state file"),
        (b"x" * (2 << 20), "larger than 1 MiB"),
    ):
        state.write_bytes(data)
        one_line(work(load, learn(state)), str(state), word)
        assert state.read_bytes() == data


def test_a_folder_that_does_not_exist(load, tmp_path):
    path = tmp_path / "none" / "state"
    one_line(work(load, learn(path)), str(path), "cannot be written")


def test_a_folder_that_goes_away(load, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    process = serve(load, f"{learn(folder)},stats:{tmp_path}/stats.json")
    time.sleep(1)  # until there is something to keep
    shutil.rmtree(folder)
    out, err = process.communicate("", timeout=SECONDS)
    assert (process.returncode, out) == (0, "")
    (line,) = err.splitlines()
    assert "cannot be written" in line
    told = json.loads((tmp_path / "stats.json").read_text())["learning"]
    assert told.startswith(f"on: {folder}/learned_load.learned; not written: "), told
    assert "its folder is missing" in told


def test_a_file_that_is_removed_while_processes_share_it(load, tmp_path):
    """With its lock: the first that ends makes both anew, and the others add to it."""
    path, count = tmp_path / "state", 3
    processes = [serve(load, learn(path)) for _ in range(count)]
    time.sleep(1)
    first_run(load, path)  # a whole run of another process, meanwhile
    for gone in (path, tmp_path / "state.lock"):
        gone.unlink()
    seen = []
    for process in processes:
        out, err = process.communicate("", timeout=SECONDS)
        assert (process.returncode, out, err) == (0, "", "")
        seen.append(samples(learned_state.read(path)))
    assert 32 < seen[0] < seen[1] < seen[2]
    assert sorted(p.name for p in tmp_path.glob("state*")) == ["state", "state.lock"]


def test_a_file_that_becomes_anothers_while_the_program_runs(load, tmp_path):
    """It is left alone, and that nothing is kept any more is said."""
    path = tmp_path / "state"
    process = serve(load, learn(path))
    time.sleep(1)  # it was read before
    path.write_text("precious")
    out, err = process.communicate("", timeout=SECONDS)
    assert (process.returncode, out) == (0, "")
    (line,) = err.splitlines()
    assert "not a state file" in line and "not kept" in line
    assert path.read_text() == "precious"


@pytest.fixture
def strangers_folder(load):
    """A folder where a user without rights finds the program and the library."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp())  # where that user can read, other than in tmp_path
    folder.chmod(0o755)
    for path in (load, Path(environment()["LD_PRELOAD"])):
        shutil.copy(path, folder)
    yield folder
    shutil.rmtree(folder)


def test_no_rights(load, state, strangers_folder):
    library = strangers_folder / Path(environment()["LD_PRELOAD"]).name
    kept = strangers_folder / "state"
    kept.write_bytes(state.read_bytes())
    for mode, word in ((0o000, "cannot be read: Permission denied"), (0o444, "cannot be written")):
        kept.chmod(mode)
        before = sorted(path.name for path in strangers_folder.iterdir())
        env = environment(learn(kept), LD_PRELOAD=str(library))
        done = work(strangers_folder / load.name, "", env=env, user=65534, cwd="/")
        one_line(done, str(kept), word)
        assert sorted(path.name for path in strangers_folder.iterdir()) == before


def test_a_start_as_root_leaves_the_file_to_its_user(load, strangers_folder):
    """As a web server does, whose master is root's and whose workers are not."""
    library = strangers_folder / Path(environment()["LD_PRELOAD"]).name
    folder = strangers_folder / "kept"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    env = environment(learn(folder / "state"), LD_PRELOAD=str(library))
    for user in (65534, 0, 65534):
        done = work(strangers_folder / load.name, "", 300, env=env, user=user, cwd="/")
        assert_quiet(done.stderr)
        assert {path.stat().st_uid for path in folder.iterdir()} == {65534}
    assert learned_state.read(folder / "state").runs == 3
    lock = folder / "state.lock"
    os.chown(lock, 0, 0)
    done = work(strangers_folder / load.name, "", 300, env=env, user=65534, cwd="/")
    one_line(done, f"{lock}, belongs to another user: remove it", "not kept")
    assert learned_state.read(folder / "state").runs == 3


def test_a_full_disk(load, state):
    """Imitated by a limit on the size of files, which prlimit and env do not have to obey."""
    before = state.read_bytes()
    settings = ("LD_PRELOAD", "LLAMALLOC_CONF")
    preloaded = environment(learn(state))
    words = ["prlimit", "--fsize=100", "env", *(f"{name}={preloaded[name]}" for name in settings)]
    plain = {name: value for name, value in preloaded.items() if name not in settings}
    one_line(work(load, "", command=words, env=plain), "cannot be written: File too large")
    assert state.read_bytes() == before
    assert list(state.parent.glob("*.tmp.*")) == []


def test_links_are_not_followed_to_write(load, state):
    """The link is replaced; its target, here of an earlier run, is read but not written."""
    link, lock, victim = (state.with_name(name) for name in ("link", "link.lock", "victim"))
    link.symlink_to(state)
    lock.symlink_to(victim)
    before = state.read_bytes()
    assert_quiet(work(load, learn(link)).stderr)
    assert state.read_bytes() == before and not link.is_symlink()
    assert learned_state.read(link).runs == 2
    assert not victim.exists()

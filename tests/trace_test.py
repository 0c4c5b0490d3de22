# SPDX-License-Identifier: Apache-2.0
"""C++ programs with threads under the recording library: every event is there, in an order that
could have been."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from preload import compile_program

from llamalloc.running import traces


def recorded(path: Path, *words: str | Path, seconds: float = 120) -> dict:
    """The summary of the trace `path`, once it holds the program's run, which succeeds."""
    command = [sys.executable, "-m", "llamalloc.cli", "trace", "-o", path, "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return traces.info(path)


@pytest.mark.parametrize(
    ("words", "threads"), [(["stress", "1", "21", "6"], 7), (["thread_churn", "300", "22"], 301)]
)
def test_no_event_of_any_thread_is_lost(words: list[str], threads: int, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    program = compile_program(words[0])
    done = subprocess.run(
        [sys.executable, "-m", "llamalloc.cli", "trace", "-o", path, "--", program, *words[1:]],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(rf"events of {threads} threads", done.stderr), done.stderr
    found = traces.info(path, top=1000)
    assert found["missing_frees"] == found["unknown_frees"] == 0, json.dumps(found)
    assert found["foreign_frees"] > 100 and found["live_objects"] < 50
    assert any("main" in name for stack in found["top_stacks"] for name in stack["frames"])


def test_threads_of_a_forked_child_share_its_file(tmp_path: Path) -> None:
    """Its first full buffers come at once, and the first one of them makes the file."""
    path = tmp_path / "t.trace"
    command = [sys.executable, "-m", "llamalloc.cli", "trace", "-o", path, "--"]
    program = [compile_program("forked_writers"), "20"]
    done = subprocess.run(
        [*command, *program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    children = list(tmp_path.glob("t.trace.*"))
    assert len(children) == 20
    for child in children:
        found = traces.info(child)
        assert found["allocations"] >= 8 * 20_000, json.dumps(found)
        assert found["missing_frees"] == found["unknown_frees"] == 0, json.dumps(found)


def test_a_thread_that_is_cancelled_writes_all_of_its_events(tmp_path: Path) -> None:
    """It would end in a write, with the locks of the recording held."""
    path = tmp_path / "t.trace"
    command = [sys.executable, "-m", "llamalloc.cli", "trace", "-o", path, "--"]
    program = [compile_program("cancelled_writer")]
    done = subprocess.run(
        [*command, *program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    found = traces.info(path)
    assert found["allocations"] >= 2 * 100_000, json.dumps(found)
    assert found["missing_frees"] == found["unknown_frees"] == 0, json.dumps(found)


def test_a_signal_handler_may_end_the_process_wherever_it_interrupts_it(tmp_path: Path) -> None:
    """In the middle of the recorder, too. Then the last events are lost, but what is written is
    good; the file is empty if it was just made."""
    env = traces.environment(tmp_path / "t.trace", 0, {})
    words = [compile_program("ends_in_handler"), "300"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    children = [child for child in tmp_path.iterdir() if child.stat().st_size > 0]
    found = [traces.info(child) for child in children]
    in_order = [child for child in found if child["ended_in_order"]]
    assert len(in_order) > 30, (len(in_order), len(found))
    assert all(child["lost_bytes"] == child["unknown_frees"] == 0 for child in found)


@pytest.mark.parametrize(("way", "times"), [("_Fork", 3), ("clone", 3), ("shared", 4)])
def test_a_child_without_fork_handlers_keeps_off_the_file(
    way: str, times: int, tmp_path: Path
) -> None:
    """It has a copy of the recording. One that shares its parent's memory is part of that."""
    path = tmp_path / "t.trace"
    found = recorded(path, compile_program("raw_children"), way)
    assert found["ended_in_order"], json.dumps(found)
    assert times * 20_000 <= found["allocations"] < times * 20_000 + 100, json.dumps(found)
    assert found["missing_frees"] == found["unknown_frees"] == 0, json.dumps(found)
    assert list(tmp_path.iterdir()) == [path]


def test_a_handler_allocates_in_a_thread_past_its_exit_handlers(tmp_path: Path) -> None:
    """Such threads share a log, whose lock the interrupted thread may hold."""
    found = recorded(tmp_path / "t.trace", compile_program("late_handler"), seconds=60)
    assert found["ended_in_order"], json.dumps(found)
    assert found["allocations"] >= 500_000, json.dumps(found)
    assert found["missing_frees"] == found["unknown_frees"] == 0, json.dumps(found)


def test_quick_exit_writes_all_events(tmp_path: Path) -> None:
    found = recorded(tmp_path / "t.trace", compile_program("unhandled_ends"), "quick_exit")
    assert found["ended_in_order"] and found["allocations"] >= 2000, json.dumps(found)


def test_both_processes_of_daemon_write_all_events(tmp_path: Path) -> None:
    """`recorded` reads standard output to its end, and so waits for the one that goes on."""
    found = recorded(tmp_path / "t.trace", compile_program("unhandled_ends"), "daemon")
    assert found["ended_in_order"] and found["allocations"] >= 2000, json.dumps(found)
    (child,) = tmp_path.glob("t.trace.*")
    found = traces.info(child)
    assert found["ended_in_order"] and found["allocations"] >= 2000, json.dumps(found)

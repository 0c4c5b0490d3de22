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

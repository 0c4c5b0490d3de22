# SPDX-License-Identifier: Apache-2.0
"""Runs of learned_load, which learn: what the tests of learning share."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from preload import assert_quiet, environment

from llamalloc.formats import learned_state
from llamalloc.formats.learned_state import LearnedState

DENSE = "sample_interval:4KiB,share_pages_below:0"
SECONDS = 60


def learn(state: Path | str, segregate: str = "always") -> str:
    return f"learn:{state},segregate:{segregate},{DENSE}"


def work(
    load: Path, conf: str, milliseconds: int = 0, command: Sequence[str] = (), **options
) -> subprocess.CompletedProcess:
    """A run, which ends with the exit status and the output that it has without the library."""
    done = subprocess.run(
        [*command, load, "work", str(milliseconds)],
        **{"env": environment(conf), **options},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "worked\n"), done.stderr
    return done


def one_line(done: subprocess.CompletedProcess, *words: str) -> None:
    """What went wrong is said in one line."""
    (line,) = done.stderr.splitlines()
    assert line.startswith("llamalloc: ") and all(word in line for word in words), line


def samples(state: LearnedState) -> int:
    return sum(node.samples for node in state.nodes if node.level == 1)


def serve(load: Path, conf: str) -> subprocess.Popen:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [load, "serve"], env=environment(conf), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def first_run(load: Path, path: Path) -> Path:
    """What one run has learned."""
    assert_quiet(work(load, learn(path), 300).stderr)
    assert samples(learned_state.read(path)) > 32
    return path

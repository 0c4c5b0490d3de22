# SPDX-License-Identifier: Apache-2.0
"""What is placed and taken again: thousands of promotions, and calloc after every kind of reuse."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hugepages import hugepages
from preload import COMPLAINT, ROOT, compile_program, environment, run

MODEL = f"segregate:always,model:{ROOT}/contracts/golden/model_v3.safetensors"
LIMIT = 192 << 20  # bytes of a control group: little more than what lives at a time


def test_contents_stay_through_thousands_of_promotions():
    """The golden model says `brief` of nearly all: 20 s, which what stays outlives."""
    conf = f"{MODEL},hugepages:off"
    done = run([compile_program("promotions"), "26", "1500"], seconds=180, conf=conf)
    promoted, broken = map(int, re.findall(r"\d+", done.stdout))
    print(done.stdout)
    assert promoted > 1000
    assert broken > 50, "pages of which little is used, on their way to another group"


@pytest.mark.machine
@pytest.mark.parametrize("mode", ["always", "madvise", "never"])
def test_calloc_gives_zeros_after_every_kind_of_reuse(mode):
    with hugepages(mode):
        conf = "release_delay:200ms,release_forecast:none"
        done = run([compile_program("zeroes"), "8", "21"], seconds=120, conf=conf)
    assert_some_broken(done.stdout)


def assert_some_broken(printed: str) -> None:
    made, broken = map(int, re.findall(r"\d+", printed))
    print(printed)
    assert made > 10_000
    assert broken > 0


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """A group of the memory controller, version 1 or 2; skips the test where none can be made."""
    root = Path("/sys/fs/cgroup/memory")
    name = "memory.limit_in_bytes"
    if not root.is_dir():
        root, name = Path("/sys/fs/cgroup"), "memory.max"
    group = root / f"llamalloc-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        try:
            (group / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"no limit of memory can be set: {error}")
        yield group
    finally:
        group.rmdir()


def test_calloc_gives_zeros_under_a_limit_of_memory(tmp_path):
    """The group is full of a file's pages first, so that the limit is met again and again."""
    program = compile_program("zeroes")
    file = tmp_path / "file"
    with control_group(LIMIT) as group:
        shell = (
            f"echo $$ > {group}/cgroup.procs; head -c {2 * LIMIT} /dev/zero > {file}; "
            f"exec env LD_PRELOAD=$PRELOADED {program} 10 22"
        )
        env = environment("release_delay:200ms,release_forecast:none")
        env["PRELOADED"] = env.pop("LD_PRELOAD")
        done = subprocess.run(
            ["sh", "-c", shell], env=env, capture_output=True, text=True, timeout=180, check=False
        )
        file.unlink()
        assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
        assert not COMPLAINT.findall(done.stderr)
        assert_some_broken(done.stdout)
        assert times_at_the_limit(group) > 0


def times_at_the_limit(group: Path) -> int:
    if (group / "memory.failcnt").is_file():
        return int((group / "memory.failcnt").read_text())
    return int(re.search(r"^max (\d+)", (group / "memory.events").read_text(), re.M)[1])


def test_the_main_thread_of_a_cxx_program_does_not_keep_its_cache_when_idle():
    done = run([compile_program("idle_main")], seconds=30, conf="sleeper_delay:10ms")
    assert int(done.stdout) > 0


def test_detached_threads_that_have_ended_keep_no_cache():
    assert run([compile_program("ended_threads")], seconds=30).stdout.split() == ["1"] * 3

# SPDX-License-Identifier: Apache-2.0
"""Our own stress programs under the library, at every huge-page setting."""

import re

import pytest
from hugepages import hugepages
from preload import compile_program, library, run


def test_library_is_loaded():
    maps = run(["cat", "/proc/self/maps"], seconds=10).stdout
    assert library().resolve().name in maps


@pytest.mark.machine
@pytest.mark.parametrize("mode", ["always", "madvise", "never"])
def test_contents_survive_threads_and_resizing(mode):
    with hugepages(mode):
        done = run([compile_program("stress"), "4", "11", "4"], seconds=60)
    assert int(done.stdout.split()[0]) > 10_000


def test_more_threads_than_processors():
    run([compile_program("stress"), "3", "12", "32"], seconds=60)


def test_fork_while_threads_allocate():
    done = run([compile_program("fork_storm"), "60", "13"], seconds=90)
    assert done.stdout == "60 forks, 0 failed\n"


def test_dead_threads_leave_no_memory():
    done = run([compile_program("thread_churn"), "3000", "14"], seconds=60)
    match = re.fullmatch(r"3000 threads, rss (\d+)\n", done.stdout)
    assert match
    assert int(match[1]) < 150_000, "KiB resident after all blocks were freed"


def test_without_background_thread():
    run([compile_program("stress"), "1", "15", "4"], seconds=60, conf="worker:off")


def test_storm():
    """Sleeps, signals, jumps, shared memory, ptrace: all that can happen to an idle thread."""
    done = run([compile_program("storm"), "6", "16", "6"], seconds=120, conf="sleeper_delay:1us")
    counts = {name: int(n) for n, name in re.findall(r"(\d+) (\w[\w ]*)", done.stdout)}
    print(counts)
    rare = {"jumps", "threads", "children", "forks", "blocks in handlers"}
    assert all(counts[name] > 10 for name in rare)
    assert counts["emptied"] > 50
    assert "stops" in counts  # none where no process may trace another

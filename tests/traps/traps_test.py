# SPDX-License-Identifier: Apache-2.0
"""Every trap under the library; `run.py` beside this file runs them under other allocators."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from preload import build_targets, library
from trap_list import FORK_HANDLERS, ROOT, TRAPS, Result, Trap, fork_order, spring

IDLE = [t for t in TRAPS if t.name.startswith("idle:")]
STATIC_TLS = [t for t in TRAPS if t.name.startswith("static TLS:")]


@pytest.fixture(scope="session", autouse=True)
def programs():
    """The trap programs, built if they are older than their sources."""
    build_targets("traps")


def assert_ends_as(result: Result, kind: str) -> None:
    assert result.kind == kind, f"{result.text}\n{result.stderr[-2000:]}"


@pytest.mark.parametrize(
    "trap", [t for t in TRAPS if not t.slow and t not in IDLE + STATIC_TLS], ids=lambda t: t.name
)
def test_trap(trap: Trap):
    result = spring(trap, library())
    assert_ends_as(result, trap.ours)


@pytest.mark.parametrize("handlers", FORK_HANDLERS)
def test_fork_handlers_of_one_kind(handlers: str):
    """Registered before any constructor of ours runs."""
    result = spring(fork_order("linked", handlers), library())
    assert_ends_as(result, "ok")


# Those that mostly sleep. Static thread-local variables come out of the stack of every thread, ours
# included.
TOGETHER = {"idle": IDLE, "static TLS": STATIC_TLS}


@cache
def all_at_once(kind: str) -> dict[str, Result]:
    with ThreadPoolExecutor(len(TOGETHER[kind])) as pool:
        return dict(pool.map(lambda trap: (trap.name, spring(trap, library())), TOGETHER[kind]))


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, trap.name) for kind, traps in TOGETHER.items() for trap in traps]
)
def test_memory_comes_back_with_no_call(kind: str, name: str):
    assert_ends_as(all_at_once(kind)[name], "ok")


@pytest.mark.parametrize("build", ["release", "debug"])
def test_caches_are_taken_from_idle_threads_and_from_no_others(build: str):
    """At both ends of a claim (engine/idle_caches.h): taken, and in use at that moment."""
    path = library() if build == "release" else ROOT / "build/debug/libllamalloc.so"
    if not path.is_file():
        pytest.skip(f"{path} is not built; run: cmake --build --preset debug")
    conf = {"LLAMALLOC_CONF": "sleeper_delay:1us,stats_print:on"}
    result = spring(Trap("sleepers", "", "sleepers 6", 60, conf), path)
    assert_ends_as(result, "ok")
    counts = dict(re.findall(r"(sleepers_\w+) +(\d+)", result.stderr))
    print(result.text, counts)
    assert int(counts["sleepers_emptied"]) > 100
    assert int(counts["sleepers_busy"]) > 100


@pytest.mark.parametrize(
    ("when", "state"),
    [
        ("early", "off: the system call membarrier is missing or not allowed"),
        ("late", "off"),
        ("allow", "on"),
    ],
)
def test_a_filter_of_system_calls_decides_about_idle_caches(when: str, state: str, tmp_path: Path):
    path = tmp_path / "stats.json"
    conf = {"LLAMALLOC_CONF": f"sleeper_delay:10ms,stats:{path}"}
    if when == "late":  # the filter ends the process for opening a file: ask on stderr
        conf = {"LLAMALLOC_CONF": "sleeper_delay:10ms,stats_print:on"}
    result = spring(Trap("seccomp", "", f"seccomp_sleep {when}", 30, conf), library())
    assert_ends_as(result, "ok")
    if when == "late":
        assert set(re.findall(r"sleepers_\w+ +(\d+)", result.stderr)) == {"0"}
        return
    stats = json.loads(path.read_text())
    assert stats["idle_caches"].startswith(state)
    assert (stats["stats"]["sleepers_emptied"] > 0) == (state == "on")


@pytest.mark.parametrize("when", ["running", "before"])
@pytest.mark.parametrize("conf", ["", "learn:on"])
def test_a_filter_may_allow_no_more_than_what_is_documented(when: str, conf: str):
    environment = {"LLAMALLOC_CONF": conf} if conf else {}
    result = spring(Trap("listed", "", f"seccomp_listed {when}", 60, environment), library())
    assert_ends_as(result, "ok")


def test_a_limit_that_the_program_sets_itself_is_followed():
    """The room to grow that large buffers have otherwise would count."""
    result = spring(Trap("later", "", "grow_limit later", 30), library())
    assert_ends_as(result, "ok")
    at_first, then = map(int, re.findall(r"\d+", result.text))
    assert at_first > then


def test_under_a_filter_of_the_program_no_file_is_written(tmp_path: Path):
    """Opening one would end the process."""
    stats, profile = tmp_path / "stats.json", tmp_path / "p.pb.gz"
    flushes = "stats_flush:100ms,profile_flush:100ms,sample_interval:4KiB"
    for option, path in (("stats", stats), ("profile", profile)):
        conf = {"LLAMALLOC_CONF": f"{option}:{path},control:{tmp_path}/c,{flushes}"}
        result = spring(Trap("seccomp", "", "seccomp_sleep late", 30, conf), library())
        assert_ends_as(result, "ok")
        (line,) = result.stderr.splitlines()
        assert "seccomp filter" in line


def test_a_child_of_a_bare_clone_leaves_alone_what_is_its_parents(tmp_path: Path):
    """Its exit takes the control socket from nobody, and writes no file."""
    socket, stats = tmp_path / "c", tmp_path / "stats.json"
    conf = {"LLAMALLOC_CONF": f"worker:off,control:{socket},stats:{stats}"}
    result = spring(Trap("raw", "", f"raw_child {socket} {stats}", 30, conf), library())
    assert_ends_as(result, "ok")
    assert not socket.exists()
    assert json.loads(stats.read_text())["stats"]["allocated"] >= 0


def test_a_full_stderr_delays_no_fork() -> None:
    conf = {"LLAMALLOC_CONF": "soft_limit:8MiB"}
    result = spring(Trap("stderr", "", "full_stderr", 20, conf), library())
    assert (result.kind, result.text) == ("ok", "20 forks")


def test_a_process_ends_although_its_disk_hangs(tmp_path: Path):
    """The background thread holds its lock for ever; the exit waits for a while only."""
    conf = {"LLAMALLOC_CONF": f"stats:{tmp_path}/stats.json,stats_flush:100ms"}
    result = spring(Trap("disk", "", "slow_disk", 20, conf), library())
    assert_ends_as(result, "ok")
    (line,) = result.stderr.splitlines()
    assert "nothing is written at exit" in line


def test_streams_do_not_wait_for_a_fork_that_waits_for_the_disk(tmp_path: Path):
    """fopen and exit of other threads need the list of streams, which the fork takes too."""
    conf = {"LLAMALLOC_CONF": f"stats:{tmp_path}/stats.json,stats_flush:100ms"}
    result = spring(Trap("fork", "", "fork_waits", 20, conf), library())
    assert_ends_as(result, "ok")


def test_pages_are_broken_where_nobody_says_how_many_were_split():
    """The worker asks, and is refused. The process that refuses has nothing to break."""
    conf = {"LLAMALLOC_CONF": "stats_print:on,release_forecast:none,release_delay:200ms"}
    result = spring(Trap("files", "", "seccomp_files EACCES", 30, conf), library())
    assert_ends_as(result, "ok")
    assert int(result.text.split()[0]) > 0, result.text
    counts = {
        name: max(map(int, re.findall(rf"{name} +(\d+)", result.stderr)))
        for name in ("bytes_broken", "pages_unbreakable")
    }
    assert counts["bytes_broken"] > 16 << 20
    assert counts["pages_unbreakable"] == 0


def test_idle_threads_keep_what_they_have_if_asked_to():
    conf = {"LLAMALLOC_CONF": "release_sleepers:off,sleeper_delay:1us,stats_print:on"}
    result = spring(Trap("sleepers", "", "sleepers 1", 30, conf), library())
    assert_ends_as(result, "ok")
    assert set(re.findall(r"sleepers_\w+ +(\d+)", result.stderr)) == {"0"}


@pytest.mark.parametrize("stack", ["own", "apart"])
def test_no_thread_is_started_in_a_signal_handler(stack: str):
    result = spring(Trap("handler", "", f"handler_starts {stack}", 20), library())
    assert result.text == "1 2"


@pytest.mark.parametrize("how", ["idle", "batch", "nice", "pinned", "alone"])
def test_a_thread_of_ours_does_not_run_below_the_program(how: str):
    """It holds locks that all wait for, whichever thread of the program freed first."""
    assert_ends_as(spring(Trap("low", "", f"low_priority {how}", 60), library()), "ok")


def test_memory_comes_back_once_a_thread_can_be_started():
    """And one line says that none could be."""
    result = spring(Trap("no thread", "", "no_thread", 60), library())
    assert_ends_as(result, "ok")
    (line,) = result.stderr.splitlines()
    assert "background thread" in line


def test_what_is_handed_on_is_named():
    """The one trap that the library passes by handing objects on says so, once."""
    trap = next(t for t in TRAPS if t.name == "libc by handle: take")
    lines = spring(trap, library()).stderr.splitlines()
    assert len([line for line in lines if "passed on" in line]) == 1


def test_deepbind_costs_no_line():
    result = spring(next(t for t in TRAPS if t.name == "DEEPBIND: give"), library())
    assert result.kind == "ok" and result.stderr == ""


def test_deepbind_that_cannot_be_mended_is_named_with_the_cure():
    """A filter refuses mprotect, so that the C library's names stay what they are."""
    refused = Trap("refused", "", "deepbind deepbind_plugin give refused", 30)
    lines = spring(refused, library()).stderr.splitlines()
    (line,) = [line for line in lines if "RTLD_DEEPBIND" in line]
    assert "deepbind_plugin" in line and "without" in line


def test_nothing_is_open_or_running_that_nobody_asked_for():
    """No descriptor at all; no thread but the one that gives memory back, and that when due."""
    result = spring(Trap("quiet", "", "quiet", 20), library())
    assert result.text == "at first 0; thread llamalloc; in the end"


def test_no_file_is_opened_that_nobody_asked_for(tmp_path):
    """What strace saw of opens, sockets, names, threads and processes, with and without us."""
    with_library, without = (_opened(tmp_path / name, name) for name in ("preloaded", "plain"))
    added = [line for line in with_library if line not in without and library().name not in line]
    added = [line for line in added if "prctl(PR_GET_" not in line]  # reads what filters there are
    assert [line for line in with_library if line in without] == without
    worker = [
        line for line in added if "CLONE_THREAD" in line or 'PR_SET_NAME, "llamalloc"' in line
    ]
    assert added == worker and len(worker) <= 2, added  # the program may end before its worker


def _opened(trace: Path, name: str) -> list[str]:
    calls = (
        "open,openat,openat2,creat,unlink,unlinkat,rename,renameat2,link,symlink,mkdir,chmod,fchmod,"
        "socket,socketpair,bind,connect,listen,pipe,pipe2,memfd_create,eventfd2,epoll_create1,"
        "inotify_init1,timerfd_create,signalfd4,clone,clone3,fork,vfork,execveat,ptrace,prctl"
    )
    preload = ["-E", f"LD_PRELOAD={library()}"] if name == "preloaded" else []
    program = ROOT / "build/release/traps/early"
    kept = {k: v for k, v in os.environ.items() if k not in {"LD_PRELOAD", "LLAMALLOC_CONF"}}
    command = ["strace", "-f", "-e", f"trace={calls}", "-o", str(trace), *preload, str(program)]
    subprocess.run(command, check=True, timeout=20, env=kept, stdout=subprocess.DEVNULL)
    lines = [line.split(maxsplit=1)[1] for line in trace.read_text().splitlines()]
    # a thread that the end of the process stops between two calls is written as ???()
    calls = [
        line
        for line in lines
        if "(" in line and "/etc/ld.so.preload" not in line and not line.startswith("???(")
    ]
    return [call.rsplit(" = ", 1)[0].strip() for call in calls]


def test_the_table_names_an_allocator_that_it_does_not_know():
    run = [sys.executable, str(ROOT / "tests/traps/run.py"), "--only", "hoard"]
    done = subprocess.run(run, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert "no such allocator: hoard" in done.stderr

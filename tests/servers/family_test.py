# SPDX-License-Identifier: Apache-2.0
"""Servers of many processes: one option serves all of them, and nobody prints a line each."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from preload import compile_program, environment, free_port, library

from llamalloc.running import control, live, published

CHILDREN = 8
NO_THREADS_IN_CHILDREN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>
static pid_t first;
__attribute__((constructor)) static void note(void) { first = getpid(); }
int pthread_create(pthread_t* t, const pthread_attr_t* a, void* (*f)(void*), void* x) {
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      dlsym(RTLD_NEXT, "pthread_create");
  return first && getpid() != first ? EAGAIN : real(t, a, f, x);
}
"""


class Family:
    """tests/servers/family.cc; `before` is called with the parent's PID before it forks. `also`: a
    library that is preloaded, too."""

    def __init__(
        self, kind: str, conf: str, before: Callable[[int], None], also: Path | None
    ) -> None:
        env = environment(conf)
        env["LD_PRELOAD"] += f":{also}" if also else ""
        self.process = subprocess.Popen(
            [compile_program("family"), kind, str(CHILDREN), "late"], env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        before(self.process.pid)
        self.allocate(1)
        pids = {int(self.process.stdout.readline()) for _ in range(CHILDREN + 1)}
        self.parent = self.process.pid
        self.children = sorted(pids - {self.parent})

    def allocate(self, kilobytes: int) -> None:
        """Some of the processes allocate so much more together."""
        self.process.stdin.write("x" * kilobytes)
        self.process.stdin.flush()

    def of_children(self, stat: str) -> int:
        return sum(live.look(str(pid)).stats[stat] for pid in self.children)

    def end(self) -> list[str]:
        """The library's lines on stderr of all, who must have ended well."""
        _, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, err
        return [line for line in err.splitlines() if line.startswith("llamalloc:")]


@contextlib.contextmanager
def family(
    kind: str,
    conf: str,
    before: Callable[[int], None] = lambda _: None,
    also: Path | None = None,
) -> Iterator[Family]:
    started = Family(kind, conf, before, also)
    try:
        yield started
    finally:
        for pid in (started.parent, *started.children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        with contextlib.suppress(ValueError):  # it has ended
            started.process.communicate()


def until(look, seconds: float = 20.0):
    """What `look` returns as soon as it is true and raises nothing."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(control.ControlError, live.LiveError):
            if found := look():
                return found
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["fork", "exec"])
def test_one_address_is_the_parents_and_nobody_complains(kind: str, tmp_path: Path) -> None:
    port = free_port()
    conf = f"http:127.0.0.1:{port},control:{tmp_path}/c"
    with family(kind, conf) as seen:
        told = live.look(f"127.0.0.1:{port}")
        assert told.pid == seen.parent
        assert control.ask(tmp_path / "c", "ping").strip() == f"pid {seen.parent}"
        shown = {p.pid: p for p in published.processes() if isinstance(p, published.Published)}
        assert {seen.parent, *seen.children} <= shown.keys()
        assert shown[seen.parent].text("control") == f"{tmp_path}/c"
        for pid in seen.children:
            look = live.look(str(pid))
            assert look.address == "" and look.stats["allocated"] >= 2_000_000
            assert shown[pid].text("control") == ""
        assert seen.end() == []


@pytest.mark.parametrize("kind", ["fork", "exec"])
def test_with_the_pid_in_the_path_each_answers_for_itself(kind: str, tmp_path: Path) -> None:
    conf = f"http:unix:{tmp_path}/%p.http,control:{tmp_path}/%e.%p.ctl"
    with family(kind, conf) as seen:
        for pid in (seen.parent, *seen.children):
            assert until(lambda pid=pid: live.look(f"unix:{tmp_path}/{pid}.http")).pid == pid
            socket = tmp_path / f"family.{pid}.ctl"
            assert until(lambda s=socket: control.ask(s, "ping")).strip() == f"pid {pid}"
            assert live.look(str(pid)).address == f"unix:{tmp_path}/{pid}.http"
        assert seen.end() == []
    assert list(tmp_path.iterdir()) == []  # each took its own away


def test_one_line_where_a_stranger_has_the_address(tmp_path: Path) -> None:
    port = free_port()
    conf = f"http:127.0.0.1:{port},control:{tmp_path}/c"
    with family("fork", conf) as stranger, family("exec", conf) as seen:
        lines = seen.end()
        assert len(lines) == 2, lines  # of the socket and of the port
        assert all("another process already listens there" in line for line in lines)
        assert live.look(f"127.0.0.1:{port}").pid == stranger.parent
        stranger.end()


@pytest.mark.parametrize("kind", ["fork", "exec"])
def test_files_have_the_names_that_their_paths_say(kind: str, tmp_path: Path) -> None:
    before = int(time.time())
    conf = f"stats:{tmp_path}/%e.%t.%p.json,profile:{tmp_path}/%p.100%%.pb.gz,sample_interval:1KiB"
    with family(kind, conf) as seen:
        assert seen.end() == []
    pids = {seen.parent, *seen.children}
    starts = {}
    for file in tmp_path.glob("*.json"):
        program, start, pid, _ = file.name.split(".")
        assert program == "family" and before <= int(start) <= time.time()
        assert json.loads(file.read_text())["pid"] == int(pid)
        starts[int(pid)] = int(start)
    assert starts.keys() == pids
    assert kind == "exec" or len(set(starts.values())) == 1
    profiles = {f.name for f in tmp_path.glob("*.gz")}
    assert profiles == {f"{pid}.100%.pb.gz" for pid in pids}


def test_an_unknown_letter_is_one_clear_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [compile_program("family")], env=environment(f"stats:{tmp_path}/%q.json"), input="",
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "%p is the PID" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def worker_of(pid: int) -> bool:
    return any(
        (task / "comm").read_text() == "llamalloc\n" for task in Path(f"/proc/{pid}/task").iterdir()
    )


def test_a_shell_without_the_library_tells_nobody() -> None:
    """It has the same options, as in a container, but opens nothing and says nothing."""
    program = compile_program("http_load")
    for address, said in {
        "127.0.0.1:0": r"http: listening on http://127\.0\.0\.1:\d+/",
        "0.0.0.0:9109": r"http 0\.0\.0\.0:9109: other machines .*",
    }.items():
        env = environment(f"http:{address}") | {"LIBRARY": str(library()), "PROGRAM": str(program)}
        del env["LD_PRELOAD"]
        done = subprocess.run(
            ["/bin/sh", "-c", 'LD_PRELOAD="$LIBRARY" "$PROGRAM"; exit $?'], env=env, input="",
            capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
        assert re.fullmatch(f"llamalloc: {said}\n", done.stderr), done.stderr


def test_programs_that_another_starts_write_no_statistics(tmp_path: Path) -> None:
    """Neither while they run nor at exit, where one process was asked."""
    conf = f"stats:{tmp_path}/s.json,stats_flush:100ms,owner_pid:1"
    with family("exec", conf) as seen:
        time.sleep(0.5)
        assert list(tmp_path.iterdir()) == []
        assert seen.end() == []
    assert list(tmp_path.iterdir()) == []


def test_forked_children_write_their_statistics_at_exit(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    with family("fork", f"stats:{path},stats_flush:100ms") as seen:
        first = until(lambda: path.exists() and path.stat().st_mtime_ns)
        until(lambda: path.stat().st_mtime_ns > first + 500_000_000)
        assert list(tmp_path.iterdir()) == [path]
        assert not any(worker_of(pid) for pid in seen.children)
        assert seen.end() == []
    assert {f.name for f in tmp_path.iterdir()} == {
        "s.json", *(f"s.json.{pid}" for pid in seen.children)
    }  # fmt: skip


def test_forked_children_with_the_pid_in_the_path_write_while_they_run(tmp_path: Path) -> None:
    with family("fork", f"stats:{tmp_path}/%p.json,stats_flush:100ms") as seen:
        for pid in (seen.parent, *seen.children):
            until((tmp_path / f"{pid}.json").exists)


def test_a_port_of_its_own_is_nothing_that_a_child_waits_for(tmp_path: Path) -> None:
    """A %p means nothing in a TCP address: a child has no socket, so no samples and no thread."""
    conf = f"control:{tmp_path}/c,http:127.0.0.1:%p,sample_interval:1KiB"
    with family("fork", conf) as seen:
        assert seen.of_children("samples") == 0
        assert not any(worker_of(pid) for pid in seen.children)
        assert len(seen.end()) == 1  # of the parent's http


def takes_no_samples(seen: Family) -> bool:
    """None of the children, while some of them allocate."""
    samples, allocated = seen.of_children("samples"), seen.of_children("allocated")

    def they_allocate() -> bool:
        seen.allocate(2000)  # perhaps only the parent does
        return seen.of_children("allocated") > allocated + 1_000_000

    until(they_allocate)
    return seen.of_children("samples") == samples


def test_a_child_that_gets_no_socket_takes_no_samples(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()

    def remove_when_open(pid: int) -> None:
        until((folder / str(pid)).exists)
        shutil.rmtree(folder)

    with family("fork", f"control:{folder}/%p,sample_interval:1KiB", remove_when_open) as seen:
        until(lambda: takes_no_samples(seen))
        assert seen.end() == []


def test_a_program_that_tells_statistics_only_at_exit_has_no_thread_for_them(
    tmp_path: Path,
) -> None:
    """They belong to another process, so nothing is to be done while it runs."""
    with family("exec", f"stats:{tmp_path}/s.json,owner_pid:1") as seen:
        assert not any(worker_of(pid) for pid in (seen.parent, *seen.children))


def test_a_child_that_gets_no_thread_takes_no_samples(tmp_path: Path) -> None:
    """Its thread would open the address that the samples are for."""
    source, limit = tmp_path / "limit.c", tmp_path / "limit.so"
    source.write_text(NO_THREADS_IN_CHILDREN)
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", limit], check=True)
    conf = f"control:{tmp_path}/%p,sample_interval:1KiB"
    with family("fork", conf, also=limit) as seen:
        until(lambda: takes_no_samples(seen))
        assert seen.end() == []

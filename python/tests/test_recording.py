# SPDX-License-Identifier: Apache-2.0
"""`llamalloc record` with the built library: whole runs, crashes, kills, attaching."""

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.programs import compiled

from llamalloc.formats import profile
from llamalloc.formats.profile import ProfileError
from llamalloc.running import control, launch, recording

LLAMALLOC = [sys.executable, "-m", "llamalloc.cli"]
CHURN = """
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static void *kept[4096];
static void *churn(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }
int main(int argc, char **argv) {
  for (int i = 0; i < 4096; i++) { free(churn(3000)); kept[i] = churn(1000); }
  puts("ready");
  fflush(stdout);
  if (!strcmp(argv[1], "crash")) { sleep(3); raise(SIGSEGV); }
  if (!strcmp(argv[1], "serve"))
    for (;; usleep(200))
      for (int i = 0; i < 32; i++) free(churn(2000));
  return argc == 3 ? atoi(argv[2]) : 0;
}
"""


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    launch.find_library()  # says `make build` where it is missing
    return compiled(tmp_path_factory.mktemp("churn") / "churn", CHURN)


def record(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*LLAMALLOC, "record", "--interval", "4KiB", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_whole_run_is_recorded_and_its_exit_code_kept(churn: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.pb.gz"
    done = record("-o", path, "--stats", tmp_path / "s.json", "--", churn, "end", "3")
    assert done.returncode == 3 and done.stdout == "ready\n"
    assert done.stderr.count("\n") == 1 and "objects sampled" in done.stderr
    found = profile.read(path)
    assert found.exiting and found.sample_interval == 4096
    by_size = {c.bytes: c for c in found.contexts if c.sampled > 100}
    assert by_size[1024].censored_bytes == pytest.approx(4096 * 1000, rel=0.2)
    assert by_size[3072].deallocated_bytes == pytest.approx(4096 * 3000, rel=0.2)
    assert not [p for p in tmp_path.iterdir() if p.name not in ("p.pb.gz", "s.json")]


def test_the_file_is_packed_as_small_as_gzip_can(churn: Path, tmp_path: Path) -> None:
    stored, packed = tmp_path / "stored.pb.gz", tmp_path / "p.pb.gz"
    conf = {"profile": str(stored), "sample_interval": "4KiB"}
    env = launch.environment(launch.find_library(), conf)
    subprocess.run([churn, "end"], env=env, check=True, capture_output=True)
    assert record("-o", packed, "--", churn, "end").returncode == 0
    for path in (stored, packed):
        best = gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=9, mtime=0)
        assert (path.read_bytes() == best) is (path == packed)
    recording.repack(stored)
    assert profile.read(stored).contexts


def test_a_crash_leaves_what_was_sampled(churn: Path, tmp_path: Path) -> None:
    done = record("-o", tmp_path / "p.pb.gz", "--", churn, "crash")
    assert done.returncode == 128 + signal.SIGSEGV
    assert "ended by signal 11" in done.stderr and "objects sampled" in done.stderr
    found = profile.read(tmp_path / "p.pb.gz")
    assert not found.exiting and sum(c.sampled for c in found.contexts) > 1000


def test_a_kill_leaves_what_was_sampled_and_term_is_passed_on(churn: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.pb.gz"
    for number in (signal.SIGKILL, signal.SIGTERM):
        path.unlink(missing_ok=True)
        command = [*LLAMALLOC, "record", "-o", str(path), "--", str(churn), "serve"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as parent:
            wait_until(path.exists)
            os.kill(parent.pid if number == signal.SIGTERM else only_child(parent.pid), number)
            parent.communicate(timeout=20)
        assert parent.returncode == 128 + number
        assert profile.read(path).contexts


def test_a_running_program_is_sampled_through_its_socket(churn: Path, tmp_path: Path) -> None:
    socket, path = tmp_path / "c", tmp_path / "p.pb.gz"
    command = [*LLAMALLOC, "run", "--control", str(socket), "--", str(churn), "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None and server.stdout.readline() == b"ready\n"
            wait_until(socket.exists)
            assert control.ask(socket, "ping") == f"pid {server.pid}\n"
            done = record("-o", path, "--control", socket, "--seconds", "1")
            assert done.returncode == 0, done.stderr
            found = profile.read(path)
            assert not found.exiting
            assert {c.bytes for c in found.contexts if c.sampled > 5} == {2048}
            assert control.ask(socket, "get sample_interval") == "0\n"  # as it was
            assert control.ask(socket, "get sampling") == "on\n"
        finally:
            server.kill()
    assert "ended" in record("-o", path, "--control", socket, "--seconds", "1").stderr


def test_bad_profiles_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"junk")
    with pytest.raises(ProfileError, match="not a pprof profile"):
        recording.finish(tmp_path / "p")
    assert (tmp_path / "p").read_bytes() == b"junk"


def wait_until(happened, patience: float = 15.0) -> None:
    deadline = time.monotonic() + patience
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


FORKS = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  for (int n = atoi(argv[1]); n > 0; n--) if (fork() == 0) break;
  for (int i = 0; i < 100000; i++) { void *volatile p = malloc(500); free(p); }
  while (wait(NULL) > 0) {}
  return 0;
}
"""


# As a shell does, but that may be sampled by chance: it allocates nothing, and writes nothing.
STARTS = """
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  if (fork() == 0) execv(argv[1], argv + 1);
  wait(NULL);
  _exit(0);
}
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("forks") / "forks", FORKS)


def recorded(path: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    words = [*LLAMALLOC, "record", "-o", path, "--", *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_what_a_start_script_starts_is_recorded(forks: Path, tmp_path: Path) -> None:
    path = tmp_path / "p" / "p.pb.gz"
    path.parent.mkdir()
    done = recorded(path, compiled(tmp_path / "starts", STARTS), forks, "0")
    (child,) = path.parent.iterdir()
    assert done.returncode == 0 and done.stderr.count("\n") == 2
    assert "too little to be sampled" in done.stderr and f"{child}: " in done.stderr
    assert profile.read(child).program == "forks"


@pytest.mark.parametrize("number", [2, 9])
def test_children_are_listed_or_counted(forks: Path, tmp_path: Path, number: int) -> None:
    path = tmp_path / "p.pb.gz"
    done = recorded(path, forks, str(number))
    files = list(tmp_path.iterdir())
    assert done.returncode == 0 and len(files) == 1 + number
    assert done.stderr.count("objects sampled") == (3 if number == 2 else 1)
    assert (f"9 processes that the program started were recorded: {path}.PID" in done.stderr) == (
        number == 9
    )
    assert all(profile.read(file) for file in files)


def test_profiles_of_earlier_runs_stay_and_are_not_this_ones(forks: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.pb.gz"
    assert recorded(path, forks, "1").returncode == 0
    (old,) = tmp_path.glob("p.pb.gz.*")
    before = old.read_bytes()
    time.sleep(0.05)
    done = recorded(path, forks, "0")
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert old.read_bytes() == before and profile.read(path)


def test_a_pattern_does_not_lead_to_another_file(forks: Path, tmp_path: Path) -> None:
    state = tmp_path / "forks.x"
    state.write_bytes(b"llmlearn")
    done = recorded(tmp_path / "%e.x", forks, "0")
    assert done.returncode == 2 and f"{state}: is a state file" in done.stderr
    assert state.read_bytes() == b"llmlearn"

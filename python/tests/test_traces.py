# SPDX-License-Identifier: Apache-2.0
"""`llamalloc trace` with the built library: whole runs, kills, forks, full disks, other threads."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from support import golden_trace
from support.programs import compiled

from llamalloc.running import launch, traces

GOLDEN = Path(__file__).resolve().parents[2] / "contracts" / "golden"
LLAMALLOC = [sys.executable, "-m", "llamalloc.cli"]
SMALL_TRACE = Path(__file__).parents[2] / "workloads" / "traces" / "fleetbench.trace"
ALLOCATE, RESIZE, FREE = range(3)

# What each argument does, in order; the last decides how it ends.
PROGRAM = """
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile kept;
__attribute__((noinline)) static void *site_of_777(void) { return kept = malloc(777); }
static void known(void) {
  char *p = site_of_777();
  kept = p = realloc(p, 100000);
  kept = realloc(p, 8888888);
  free(kept);
  kept = calloc(3, 111);
  void *q;
  if (posix_memalign(&q, 4096, 5555)) abort();
  free(q);
  kept = realloc(NULL, 4321);
  free(kept);
  kept = malloc(99);
  if (realloc(kept, (size_t)1 << 62)) abort();
  free(kept);
  kept = malloc(98);
  kept = realloc(kept, 0);
  free(NULL);
}
static void churn(int n) {
  for (int i = 0; i < n; i++) { kept = malloc(16 + i % 2000); free(kept); }
}
static void *box[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *share(void *seed) {
  unsigned state = (unsigned)(size_t)seed;
  for (int i = 0; i < 40000; i++) {
    state = state * 1664525u + 1013904223u;
    void *mine = state & 4096 ? malloc(1 + (state >> 15)) : NULL;
    pthread_mutex_lock(&lock);
    void **place = &box[state >> 8 & 63], *other = *place;
    *place = mine;
    pthread_mutex_unlock(&lock);
    if (other && state & 64) other = realloc(other, state >> 16);
    free(other);
  }
  return NULL;
}
static void threads(void) {
  pthread_t all[8];
  for (size_t i = 0; i < 8; i++) pthread_create(&all[i], NULL, share, (void *)i);
  for (int i = 0; i < 8; i++) pthread_join(all[i], NULL);
  for (int i = 0; i < 64; i++) free(box[i]);
}
static void forks(void) {
  pid_t child = fork();
  if (child == 0) { for (int i = 0; i < 50; i++) free(malloc(6543)); exit(0); }
  waitpid(child, NULL, 0);
  if (vfork() == 0) _exit(0);
  wait(NULL);
  kept = malloc(3456);
}
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "known")) known();
    if (!strcmp(argv[i], "churn")) churn(20000);
    if (!strcmp(argv[i], "threads")) threads();
    if (!strcmp(argv[i], "forks")) forks();
    if (!strcmp(argv[i], "close")) for (int fd = 3; fd < 1024; fd++) close(fd);
    if (!strcmp(argv[i], "kill")) { usleep(700000); raise(SIGKILL); }
    if (!strcmp(argv[i], "_exit")) _exit(7);
  }
  puts("done");
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    traces.find_tool()  # says `make build` where it is missing
    path = tmp_path_factory.mktemp("program") / "program"
    return compiled(path, PROGRAM, "-pthread", "-rdynamic", "-Wno-unused-result")


def trace(*words: str | Path, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    limited = ["prlimit", f"--fsize={limit}"] if limit else []
    return subprocess.run(
        [*limited, *LLAMALLOC, "trace", *map(str, words)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def events_of(path: Path) -> np.ndarray:
    found = list(traces.batches(path))
    return np.concatenate(found) if found else np.empty(0, traces.EVENT)


def assert_balanced(events: np.ndarray) -> None:
    """Objects come in order, and nothing happens to one before its allocation or after its free."""
    assert np.all(np.diff(events["time_ns"].astype(np.int64)) >= 0)
    born = events["object"][events["kind"] == ALLOCATE]
    assert np.array_equal(born, np.arange(len(born)))
    frees = events["object"][events["kind"] == FREE]
    assert len(np.unique(frees)) == len(frees)
    first = np.zeros(len(born), dtype=np.int64)
    first[born] = np.flatnonzero(events["kind"] == ALLOCATE)
    last = np.full(len(born), len(events))
    last[frees] = np.flatnonzero(events["kind"] == FREE)
    where, objects = np.arange(len(events)), events["object"]
    assert np.all(first[objects] <= where) and np.all(where <= last[objects])


def test_a_whole_run_is_recorded_as_it_was(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    done = trace("-o", path, "--", program, "known")
    assert done.returncode == 0 and done.stdout == "done\n"
    assert done.stderr.count("\n") == 1 and "events of 1 thread" in done.stderr
    assert list(tmp_path.iterdir()) == [path]
    events = events_of(path)
    assert_balanced(events)
    start = np.flatnonzero(events["size"] == 777)[0]
    rows = [
        (e["kind"], e["object"] - events["object"][start], e["size"], 1 << int(e["alignment_log2"]))
        for e in events[start:]
    ]
    assert rows[:13] == [
        (ALLOCATE, 0, 777, 16), (RESIZE, 0, 100000, 16), (RESIZE, 0, 8888888, 16), (FREE, 0, 0, 1),
        (ALLOCATE, 1, 333, 16), (ALLOCATE, 2, 5555, 4096), (FREE, 2, 0, 1),
        (ALLOCATE, 3, 4321, 16), (FREE, 3, 0, 1), (ALLOCATE, 4, 99, 16), (FREE, 4, 0, 1),
        (ALLOCATE, 5, 98, 16), (FREE, 5, 0, 1),
    ]  # fmt: skip
    stacks = dict(traces.stacks(path).iter_rows())
    assert stacks[events["stack"][start]][:1] == ["site_of_777"]
    assert "main" in stacks[events["stack"][start]]
    found = traces.info(path)
    assert found["ended_in_order"] and found["missing_frees"] == found["unknown_frees"] == 0
    assert found["peak_bytes"] >= 8888888 and str(program) in found["command"]


def test_threads_are_merged_without_loss(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    assert trace("-o", path, "--raw", "--", program, "threads").returncode == 0
    found = traces.info(path)
    assert found["missing_frees"] == found["unknown_frees"] == 0
    assert found["threads"] == 9 and found["foreign_frees"] > 64
    before = events_of(path)
    assert_balanced(before)
    packed = traces.finish(path)
    assert np.array_equal(events_of(path), before)
    assert packed.summary["file_bytes"] / packed.events < 8


def test_a_killed_program_leaves_what_it_wrote(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    done = trace("-o", path, "--", program, "churn", "known", "kill")
    assert done.returncode == 128 + signal.SIGKILL
    assert "killed or cut off: the last events" in done.stderr
    found = traces.info(path)
    assert not found["ended_in_order"] and 15_000 < found["allocations"] < 20_100
    assert any("churn" in name or "main" in name for name in found["top_stacks"][0]["frames"])
    assert_balanced(events_of(path))


def test_an_end_without_exit_handlers_loses_nothing(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    done = trace("-o", path, "--", program, "known", "_exit")
    assert done.returncode == 7 and traces.info(path)["ended_in_order"]


def test_children_record_into_files_of_their_own(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    done = trace("-o", path, "--", program, "known", "forks", "churn")
    assert done.returncode == 0 and done.stderr.count("\n") == 2
    (child,) = traces.of_children(path)
    assert np.count_nonzero(events_of(child)["size"] == 6543) == 50
    parent = events_of(path)
    assert not np.any(parent["size"] == 6543) and np.any(parent["size"] == 3456)
    assert traces.info(path)["ended_in_order"] and traces.info(child)["ended_in_order"]
    assert_balanced(parent)


def test_only_traces_of_an_earlier_run_are_removed(program: Path, tmp_path: Path) -> None:
    path, old, notes = (tmp_path / name for name in ("t.trace", "t.trace.7", "t.trace.20260101"))
    old.write_bytes((GOLDEN / "trace_v1.trace").read_bytes())
    notes.write_text("of somebody")
    done = trace("-o", path, "--", program, "known")
    assert done.returncode == 0 and done.stderr.count("\n") == 1
    assert not old.exists() and notes.read_text() == "of somebody"


def test_a_program_that_closes_every_file_is_recorded(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    assert trace("-o", path, "--", program, "churn", "close", "churn").returncode == 0
    found = traces.info(path)
    assert found["ended_in_order"] and found["allocations"] >= 40_000


def test_a_full_disk_stops_the_recording_only(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    done = trace("-o", path, "--raw", "--", program, "churn", "known", limit=100_000)
    assert done.returncode == 0 and done.stdout == "done\n"
    assert done.stderr.count("recording stops") == 1 and "File too large" in done.stderr
    found = traces.info(path)
    assert 60_000 < found["file_bytes"] <= 100_000 and found["lost_bytes"] == 0
    assert found["allocations"] > 5_000


def test_a_device_that_is_full(program: Path) -> None:
    preload = traces.environment(Path("/dev/full"), 0, {})["LD_PRELOAD"]
    settings = f"LLAMALLOC_TRACE_PID=$$ LLAMALLOC_TRACE=/dev/full LD_PRELOAD={preload}"
    done = subprocess.run(
        ["sh", "-c", f"{settings} exec {program} known"],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "done\n"
    assert "No space left on device; recording stops" in done.stderr


def test_nothing_recorded_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    env = {**os.environ, "LLAMALLOC_LIBRARY": str(launch.find_library())}
    done = subprocess.run(
        [*LLAMALLOC, "trace", "-o", path, "--", "env", "-i", "true"],
        capture_output=True, text=True, timeout=20, check=False, env=env,
    )  # fmt: skip
    assert done.returncode in (0, 1)
    assert "events" in done.stderr or "nothing was recorded" in done.stderr


@pytest.mark.parametrize("name", ["trace_v1_observed.trace", "trace_v1.trace"])
def test_golden_traces_read_as_their_events(name: str) -> None:
    rows = [tuple(int(value) for value in event) for event in events_of(GOLDEN / name)]
    order = (0, 1, 2, 3, 4, 5, 6)
    assert [tuple(row[i] for i in order) for row in rows] == golden_trace.EVENTS


def test_golden_traces_are_what_the_contract_says() -> None:
    assert (GOLDEN / "trace_v1_observed.trace").read_bytes() == golden_trace.observed()
    assert (GOLDEN / "trace_v1.trace").read_bytes() == golden_trace.resolved()
    for data in (golden_trace.observed(), golden_trace.resolved()):
        assert [kind for _, kind, _, _ in golden_trace.chunks(data)][:5] == [7, 5, 3, 4, 6]


def test_a_recording_holds_the_chunks_of_the_contract(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    assert trace("-o", path, "--raw", "--", program, "known").returncode == 0
    kinds = [kind for _, kind, _, _ in golden_trace.chunks(path.read_bytes())]
    assert kinds[0] == golden_trace.ABOUT and kinds[-1] == golden_trace.END
    assert kinds.index(golden_trace.STACK) < kinds.index(golden_trace.OBSERVED)


def test_cut_and_export(tmp_path: Path) -> None:
    part, table = tmp_path / "part.trace", tmp_path / "t.parquet"
    source = GOLDEN / "trace_v1_observed.trace"
    done = trace("cut", source, "-o", part, "--events", "3")
    assert done.returncode == 0 and "3 events of 2 threads" in done.stderr
    assert [int(e["size"]) for e in events_of(part)] == [40, 5000, 16]
    done = trace("export", source, "-o", table)
    assert done.returncode == 0 and "8 events" in done.stderr
    rows = pl.read_parquet(table)
    assert rows["kind"].to_list()[3:5] == ["resize", "free"]
    assert rows["alignment"].to_list() == [16, 4096, 16, 16, 0, 0, 1 << 40, 0]
    assert rows["time_ns"].to_list() == [event[0] for event in golden_trace.EVENTS]
    stacks = pl.read_parquet(tmp_path / "t.stacks.parquet")
    assert stacks["frames"].to_list() == [[], ["make_session", "main"], ["?", "main"]]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "part.trace", "t.parquet", "t.stacks.parquet"
    ]  # fmt: skip


@pytest.mark.parametrize("verb", [["info"], ["cut", "-o", "o"], ["export", "-o", "o.parquet"]])
def test_a_damaged_trace_is_one_line(verb: list[str], tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "trace_v1.trace").read_bytes())
    data[200] ^= 1
    path = tmp_path / "t.trace"
    path.write_bytes(data)
    words = [str(tmp_path / word) if word.startswith("o") else word for word in verb]
    done = trace(*words, path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "byte " in done.stderr and "damaged" in done.stderr
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("verb", [["info"], ["cut", "-o", "o"], ["export", "-o", "o.parquet"]])
def test_a_name_may_hold_any_bytes(verb: list[str], tmp_path: Path) -> None:
    words = [str(tmp_path / word) if word.startswith("o") else word for word in verb]
    path = tmp_path / os.fsdecode(b"bad\xff.trace")
    done = trace(*words, path)
    assert done.returncode == 1
    assert done.stderr == f"llamalloc: {tmp_path}/bad\\udcff.trace: No such file or directory\n"
    path.write_bytes((GOLDEN / "trace_v1.trace").read_bytes())
    assert trace(*words, path).returncode == 0


def test_a_parquet_file_needs_a_name_in_utf_8(tmp_path: Path) -> None:
    source = GOLDEN / "trace_v1.trace"
    done = trace("export", source, "-o", tmp_path / os.fsdecode(b"bad\xff.parquet"))
    assert done.returncode == 1 and done.stderr.endswith(": the name is not UTF-8; name another "
                                                         "file\n")  # fmt: skip


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    """Imitated by a limit on the size of files."""
    table = tmp_path / "t.parquet"
    done = trace("export", GOLDEN / "trace_v1.trace", "-o", table, limit=2000)
    assert done.returncode == 1
    assert done.stderr.startswith(f"llamalloc: {table}: cannot be written (")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [("trace", "info"), ("trace", "tables"), ("trace", "dump"), ("simulate",),
     ("replay", "--speed", "0")],
)  # fmt: skip
def test_a_tool_says_that_its_output_is_full(words: tuple[str, ...]) -> None:
    tool = launch.find_tool(f"llamalloc-{words[0]}")
    command = [tool, *words[1:], SMALL_TRACE]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{tool.name}: standard output: ")
    assert done.stderr.count("\n") == 1


def test_info_is_a_page_or_json() -> None:
    page = trace("info", GOLDEN / "trace_v1.trace")
    assert page.returncode == 0 and "make_session < main" in page.stdout
    assert "8: 4 allocations, 1 resizes, 3 frees" in page.stdout
    assert '"peak_bytes": 5096' in trace("info", "--json", GOLDEN / "trace_v1.trace").stdout


def test_of_stacks_whose_objects_all_live_on_there_is_no_mean_life(tmp_path: Path) -> None:
    part = tmp_path / "part.trace"
    assert trace("cut", GOLDEN / "trace_v1.trace", "-o", part, "--events", "1").returncode == 0
    row = trace("info", part).stdout.splitlines()[-1].split()
    assert row[:6] == ["40", "B", "1", "40", "B", "-"]

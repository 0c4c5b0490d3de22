# SPDX-License-Identifier: Apache-2.0
"""Learning in process: what a run learns places its objects and those of the next run.

tests/servers/learned_load.cc allocates survivors and temporaries, and looks where they lie.
"""

import json
import signal
import stat
import subprocess
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from learned_runs import SECONDS, first_run, learn, one_line, samples, serve, work
from preload import assert_quiet, compile_program, environment, run

from llamalloc.formats import contracts, learned_state
from llamalloc.learning import evidence

PLUGIN = """
#include <stdlib.h>
const char which[] = WHICH;
void* make(size_t n) { void* p = malloc(n); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
"""

TWO_SITES = """
#include <stdlib.h>
#ifdef NEXT_BUILD
__attribute__((noinline, used)) double in_front(double x) {
  for (int i = 0; i < 9; i++) x = x * atof("3") + i;
  return x;
}
#endif
#define MAKE(name) void* name(size_t n) { \\
  void* p = malloc(n); __asm__ volatile("" : : "r"(p) : "memory"); return p; }
MAKE(make_temporary)
MAKE(make_survivor)
"""
# The entry of make_temporary says that it is a gigabyte long.
ODD_TABLE = """
    .text
    .globl make_temporary, make_survivor
    .type make_temporary, @function
    .type make_survivor, @function
make_temporary:
.Lbegin:
    subq $8, %rsp
    call malloc@PLT
    addq $8, %rsp
    ret
make_survivor:
    subq $8, %rsp
    call malloc@PLT
    addq $8, %rsp
    ret
    .section .eh_frame, "a", @progbits
.Lcie: .long .Lcie_end - .Lcie_begin
.Lcie_begin: .long 0
    .byte 1
    .string "zR"
    .uleb128 1
    .sleb128 -8
    .byte 16
    .uleb128 1
    .byte 0x1b
    .byte 0x0c, 7, 8, 0x90, 1
    .align 8
.Lcie_end:
    .long .Lfde_end - .Lfde_begin
.Lfde_begin: .long . - .Lcie
    .long .Lbegin - .
    .long 0x40000000
    .uleb128 0
    .byte 0x44, 0x0e, 16
    .align 8
.Lfde_end:
    .section .note.GNU-stack, "", @progbits
"""


@pytest.fixture(scope="module")
def load() -> Path:
    return compile_program("learned_load")


def shared(load: Path, conf: str, how: str = "sites", seconds: int = 40) -> tuple[int, int]:
    """Temporaries in huge pages of survivors, in the first generation and in the last one."""
    words = [load, "apart", how, str(seconds), "3"]
    return two_counts(run(words, seconds=SECONDS + seconds, conf=conf))


def two_counts(done: subprocess.CompletedProcess) -> tuple[int, int]:
    first, last = done.stdout.split()
    return int(first), int(last)


def shared_in_another_build(load: Path, conf: str, how: str) -> tuple[int, int]:
    """The same; what it says is that all is known from the build before."""
    done = subprocess.run(
        [load, "apart", how, "20", "3"],
        env=environment(conf),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    one_line(done, "of another build of learned_load; 100 % of what its last run saw")
    return two_counts(done)


@pytest.fixture
def state(tmp_path, load) -> Path:
    """What one run has learned."""
    return first_run(load, tmp_path / "state")


# ----- Placement -----


@pytest.mark.parametrize("how", ["sites", "callers"])
def test_a_run_learns_within_itself_and_the_next_knows_it_from_the_start(load, tmp_path, how):
    conf = learn(tmp_path / "state")
    first, last = shared(load, conf, how)
    assert (first > 0, last) == (True, 0)
    assert shared(load, conf, how) == (0, 0)


def test_on_keeps_nothing(load, tmp_path):
    stats = tmp_path / "stats.json"
    conf = f"{learn('on')},stats:{stats}"
    for _ in range(2):
        first, last = shared(load, conf)
        assert (first > 0, last) == (True, 0)
    assert json.loads(stats.read_text())["learning"] == "on; nothing is kept: learn:on"
    assert list(tmp_path.iterdir()) == [stats]


def test_off_is_no_file(tmp_path):
    stats = tmp_path / "stats"
    run(["true"], seconds=SECONDS, conf=f"learn:off,stats:{stats}", cwd=tmp_path)
    assert json.loads(stats.read_text())["learning"] == "off"
    assert list(tmp_path.iterdir()) == [stats]


@pytest.mark.parametrize("segregate", ["never", "auto"])
def test_nothing_is_placed_where_it_is_not_to_be(load, state, tmp_path, segregate):
    """auto: the load is steady, so that there is nothing to gain."""
    assert shared(load, learn(state)) == (0, 0)
    stats = tmp_path / "stats.json"
    first, last = shared(load, f"{learn(state, segregate)},stats:{stats}", seconds=3)
    assert first > 0 and last > 0
    found = json.loads(stats.read_text())
    assert found["learning"] == f"on: {state}"
    assert found["segregation"].startswith("placement by lifetime is off: ")


def test_without_learn_statistics_say_so(load, tmp_path):
    stats = tmp_path / "stats.json"
    work(load, f"stats:{stats}")
    found = json.loads(stats.read_text())
    assert (found["learning"], found["segregation"]) == ("off", "")


def test_a_heap_that_grows_at_full_speed_is_sampled_from_64_mib_on(load, tmp_path):
    stats = tmp_path / "stats.json"
    run([load, "fill", "256"], seconds=SECONDS, conf=f"learn:on,stats:{stats}")
    # One in 1 MiB of the last 192. The worker may not have come round.
    assert 110 < json.loads(stats.read_text())["stats"]["samples"] < 290


# ----- What is kept -----


def test_a_small_process_has_no_second_thread(tmp_path):
    """setpriv aborts if it has one: glibc changes the user in each thread, with other rights."""
    command = ["grep", "Threads", "/proc/self/status"]
    done = run(command, seconds=SECONDS, conf=f"learn:{tmp_path}")
    assert done.stdout.split() == ["Threads:", "1"]


def test_the_file_is_the_users_alone_and_counts_runs(load, state):
    before = learned_state.read(state)
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert (before.name, before.runs) == ("learned_load", 1)
    work(load, learn(state), 300)
    after = learned_state.read(state)
    assert after.runs == 2 and samples(after) > samples(before)


def test_a_folder_holds_a_file_of_each_program(load, tmp_path):
    work(load, learn(tmp_path))
    (path,) = tmp_path.glob("*.learned")
    assert path.name == "learned_load.learned"


@pytest.mark.parametrize("script", ["ls / > /dev/null; $0 work 300", "$0 work 1500 & exit 0"])
def test_a_script_that_starts_a_program_leaves_its_file_to_it(load, tmp_path, script):
    """All inherit the option, and others end first. They have allocated next to nothing."""
    path = tmp_path / "state"
    conf = learn(path).replace("4KiB", "16KiB")
    words = ["bash", "-c", script, load]
    done = subprocess.run(words, env=environment(conf), capture_output=True, timeout=SECONDS)
    assert done.stderr == b""
    assert learned_state.read(path).name == "learned_load"


def test_what_is_freed_at_the_end_did_not_live_shortly(load, tmp_path):
    path = tmp_path / "state"
    run([load, "freed", "8000"], seconds=SECONDS, conf=learn(path))
    old = [node for node in learned_state.read(path).nodes if node.elders > 0 and node.level == 1]
    names = {evidence.verdict(node) for node in old}
    assert names & {"never", "mixed"}
    assert names <= {"never", "mixed", None}  # None: a site of few samples.
    assert sum(node.elders for node in old) > 32


def test_what_allocates_little_and_stays_is_found(load, tmp_path):
    """60 KiB, where one object in 512 KiB is sampled: one run in nine would see one of them."""
    path = tmp_path / "state"
    conf = f"learn:{path},segregate:always"
    run([load, "pinner", "12000"], seconds=SECONDS, conf=conf)
    sites = [node for node in learned_state.read(path).nodes if node.level == 1]
    staying = [node for node in sites if evidence.verdict(node) == "never"]
    assert any(sum(node.deaths) == 0 and node.elders >= 2 for node in staying), sites


def test_a_killed_process_leaves_what_it_saved(served):
    """Every minute, and for the first time after ten seconds."""
    process, path = served
    end = time.monotonic() + SECONDS
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert samples(learned_state.read(path)) > 32


@pytest.fixture(scope="module", autouse=True)
def served(load, tmp_path_factory):
    """A server and its state file. It runs beside the other tests."""
    path = tmp_path_factory.mktemp("served") / "state"
    process = serve(load, learn(path))
    yield process, path
    process.kill()
    process.communicate()


# ----- Other builds -----


def next_build(folder: Path, number: int, strips: bool) -> Path:
    """The load, built anew: its functions lie elsewhere, and one has changed."""
    program = compile_program("learned_load", folder, f"-DLEARNED_LOAD_BUILD={number}")
    if strips:
        subprocess.run(["strip", program], check=True)
    return program


@pytest.mark.parametrize("strips", [False, True])
@pytest.mark.parametrize("how", ["sites", "callers"])
def test_another_build_knows_from_the_start_what_the_last_one_learned(load, tmp_path, how, strips):
    conf = learn(tmp_path / "state")
    shared(load, conf, how)
    for number in (1, 2):
        program = next_build(tmp_path / str(number), number, strips)
        assert shared_in_another_build(program, conf, how) == (0, 0)
        assert_quiet(work(program, conf).stderr)
    assert shared_in_another_build(load, conf, how) == (0, 0), "rolled back"


def build_plugin(folder: Path, *options: str) -> Path:
    """One with two functions that allocate, of which `hosted` calls make_temporary and
    make_survivor."""
    folder.mkdir()
    source, plugin = folder / "plugin.c", folder / "plugin.so"
    source.write_text(TWO_SITES)
    flags = ["-O2", "-shared", "-fPIC", *options]
    subprocess.run(["gcc", *flags, source, "-o", plugin], check=True)
    return plugin


def test_another_build_of_a_library_that_is_loaded_later_is_known_from_the_next_run(load, tmp_path):
    conf = learn(tmp_path / "state")
    before = build_plugin(tmp_path / "1")
    after = build_plugin(tmp_path / "2", "-DNEXT_BUILD")
    for _ in range(2):
        run([load, "hosted", before, "1000"], seconds=SECONDS, conf=conf)
    old = counts_by_key(tmp_path / "state")
    run([load, "hosted", after, "1"], seconds=SECONDS, conf=conf)
    new = counts_by_key(tmp_path / "state")
    carried = [new[key] for key in new.keys() - old.keys() if max(new[key]) > 1000]
    assert len(carried) >= 1, "as many as in the old build, of a run that made hardly any"


def counts_by_key(path: Path) -> dict[int, tuple[int, ...]]:
    return {node.key: (*node.deaths, *node.young) for node in learned_state.read(path).nodes}


def test_a_library_whose_unwind_table_reaches_beyond_it_does_no_harm(load, tmp_path):
    source, plugin = tmp_path / "odd.s", tmp_path / "odd.so"
    source.write_text(ODD_TABLE)
    subprocess.run(["gcc", "-shared", source, "-o", plugin], check=True)
    run([load, "hosted", plugin, "300"], seconds=SECONDS, conf=learn(tmp_path / "state"))
    assert counts_by_key(tmp_path / "state")


def test_what_another_build_does_not_share_is_learned_again(load, state):
    found = learned_state.read(state)
    another = replace(found, program=found.program ^ 2, modules=1, frames=())
    state.write_bytes(learned_state.pack(another))
    one_line(work(load, learn(state)), "of another build", " 0 % of what its last run saw")
    assert samples(learned_state.read(state)) > samples(found)


def test_a_state_of_version_1_is_used_and_written_anew(load, tmp_path):
    golden = Path(str(contracts.folder())) / "golden" / "learned_v1.learned"
    old = learned_state.read(golden)
    assert old.name == "redis-server"
    path = tmp_path / "state"
    data = golden.read_bytes().replace(b"redis-server", b"learned_load")[:-4]
    path.write_bytes(data + zlib.crc32(data).to_bytes(4, "little"))
    one_line(work(load, learn(path), 300), "of another build of learned_load")
    found = learned_state.read(path)
    assert {node.key for node in old.nodes} < {node.key for node in found.nodes}
    assert found.frames
    assert (found.gate, found.program) == (old.gate, old.program), "nothing was measured since"


def samples_of_each(folder: Path) -> list[int]:
    """Of the processes that left their statistics in the folder."""
    return [json.loads(path.read_text())["stats"]["samples"] for path in folder.glob("*.json")]


def test_processes_share_a_file(load, tmp_path):
    path, count = tmp_path / "state", 10
    confs = [f"{learn(path)},stats:{tmp_path}/{i}.json" for i in range(count)]
    words = [load, "fork", "0", "45"]
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda conf: run(words, seconds=SECONDS, conf=conf), confs))
    found = learned_state.read(path)
    assert 1 <= found.runs <= count
    seen = sum(samples_of_each(tmp_path))
    assert 0.95 * seen <= samples(found) <= seen
    assert sorted(p.name for p in tmp_path.glob("state*")) == ["state", "state.lock"]


# ----- Processes, threads, code that comes and goes -----


@pytest.mark.parametrize("children", [1, 8])
def test_forked_children_learn_on(load, tmp_path, children):
    """Each counts what it saw itself: 5 generations of 2,200 objects, 60 more in the parent."""
    path = tmp_path / "state"
    conf = f"{learn(path)},stats:{tmp_path}/%p.json"
    run([load, "fork", str(children), "60"], seconds=SECONDS, conf=conf)
    found, shares = learned_state.read(path), samples_of_each(tmp_path)
    assert found.runs == 1 and len(shares) == 1 + children
    expected = (60 + 5 * (1 + children)) * 2200 * 200 / 4096
    assert samples(found) == pytest.approx(expected, rel=0.15)
    assert samples(found) == pytest.approx(sum(shares), rel=0.02)


def test_a_child_for_each_connection_does_not_write_each_time(load, state):
    """Each saw a few objects, and the file is written at most once a second, not by each child."""
    count, written = 150, set()
    started = time.monotonic()
    with subprocess.Popen(
        [load, "connections", str(count)], env=environment(learn(state)), stdout=subprocess.PIPE
    ) as process:
        while process.poll() is None:
            written.add(state.stat().st_mtime_ns)
            time.sleep(0.001)
    assert process.returncode == 0
    assert len(written) <= time.monotonic() - started + 3, "once a second, and by the parent"
    assert learned_state.read(state).runs == 2


def test_forked_children_draw_their_own_samples(load, tmp_path):
    conf = f"{learn(tmp_path / 'state')},stats:{tmp_path}/%p.json"
    run([load, "fork", "8", "0"], seconds=SECONDS, conf=conf)
    shares = samples_of_each(tmp_path)
    assert len(shares) == 9 and len(set(shares)) > 3, shares


def test_a_child_that_becomes_a_program_learns_for_itself(load, tmp_path):
    """It writes before its parent, so it counts the run; each adds a generation at least."""
    path = tmp_path / "state"
    run([load, "exec", "300"], seconds=SECONDS, conf=learn(path))
    found = learned_state.read(path)
    assert found.runs == 1 and found.name == "learned_load"
    assert samples(found) > 1.5 * 2200 * 200 / 4096


def test_threads(load, tmp_path):
    path = tmp_path / "state"
    run([load, "threads", "8", "1500"], seconds=SECONDS, conf=learn(path))
    assert shared(load, learn(path)) == (0, 0)


def build_plugins(folder: Path, build_id: str) -> list[Path]:
    """Two of one layout."""
    source = folder / "plugin.c"
    source.write_text(PLUGIN)
    made = []
    for name in ("survivors", "temporaries"):
        made.append(folder / f"{name}.so")
        flags = ["-O1", "-fno-builtin", "-shared", "-fPIC", f"-Wl,--build-id={build_id}"]
        words = ["gcc", *flags, f'-DWHICH="{name:>12}"', source, "-o", made[-1]]
        subprocess.run(words, check=True, timeout=SECONDS)
    return made


def test_verdicts_follow_plugins_at_one_address(load, tmp_path):
    plugins = build_plugins(tmp_path, "sha1")
    path = tmp_path / "state"
    for _ in range(2):
        run([load, "mirror", *plugins, "6"], seconds=300, conf=learn(path))
    sites = [node for node in learned_state.read(path).nodes if node.level == 1]
    lasting = [node for node in sites if node.samples > 32 and sum(node.deaths) == 0]
    short = [node for node in sites if node.samples > 32 and node.deaths[0] > 32]
    assert len(lasting) >= 2 and len(short) >= 2  # of the program, and of a plugin each
    assert all(sum(node.young) < 32 for node in short)


def test_plugins_without_build_id(load, tmp_path):
    """Nothing tells them apart but who calls them."""
    plugins = build_plugins(tmp_path, "none")
    for _ in range(2):
        run([load, "mirror", *plugins, "4"], seconds=300, conf=learn(tmp_path / "state"))


@pytest.mark.parametrize("how", ["jit", "paths"])
def test_contexts_without_end_take_bounded_memory(load, tmp_path, how):
    """Code made at run time, and ever new paths through the same code."""
    figures = []
    for calls in (200_000, 600_000):
        stats = tmp_path / "stats.json"
        conf = f"learn:{tmp_path / 'state'},segregate:always,sample_interval:256,stats:{stats}"
        done = run([load, how, str(calls)], seconds=300, conf=conf)
        worker, resident = map(float, done.stdout.split())
        found = json.loads(stats.read_text())["stats"]
        figures.append((found["samples"] + found["samples_dropped"], found["metadata"]))
        print(how, calls, f"worker {worker} s, resident {resident} KiB", figures[-1])
        assert worker < 2
        assert abs(found["worker_nanos"] / 1e9 - worker) < 0.3  # the round at the end is the exit's
    (few, before), (many, after) = figures
    assert many > 2.5 * few
    assert after < 12 << 20 and after - before < 4 << 20
    assert len(learned_state.read(tmp_path / "state").nodes) <= 10_800

# SPDX-License-Identifier: Apache-2.0
"""Memory control groups: what is read of them, how one is made, and that it always goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from llamalloc.running import charge, look_up, memory_now, procmem
from llamalloc.running.charge import V1, V2, Charge, ChargeError, Group
from llamalloc.running.memory_group import MemoryGroup, prefix

STAT_1 = "cache 1\nrss 2\ntotal_cache 900\ntotal_shmem 100\ntotal_rss 4000\ntotal_rss_huge 3000\n"
STAT_2 = "anon 4000\nfile 900\nshmem 100\nanon_thp 3000\npagetables 60\n"


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def version_1(folder: Path, group: str = "") -> Path:
    files = {V1.usage: "5000\n", "memory.stat": STAT_1, V1.peak: "7000\n"}
    return written(folder, {f"memory/{V1.usage}": "1\n"} | {
        f"memory/{group}/{name}": text for name, text in files.items() if group
    })  # fmt: skip


def version_2(folder: Path, group: str = "") -> Path:
    files = {V2.usage: "5000\n", "memory.stat": STAT_2, V2.peak: "7000\n"}
    return written(folder, {"cgroup.controllers": "cpu memory\n"} | {
        f"{group}/{name}": text for name, text in files.items() if group
    })  # fmt: skip


def process(folder: Path, lines: str) -> Path:
    return written(folder, {"1/cgroup": lines})


@pytest.mark.parametrize(("version", "stat"), [(V1, STAT_1), (V2, STAT_2)])
def test_a_charge_is_usage_less_page_cache_and_keeps_shared_memory(version, stat, tmp_path):
    written(tmp_path, {version.usage: "5000\n", "memory.stat": stat, version.peak: "7000\n"})
    written(tmp_path, {version.kills: "oom_kill_disable 0\noom_kill 2\n"})
    group = Group(tmp_path, version)
    assert group.read() == Charge(charge=4200, page_cache=800, anonymous=4000, huge=3000)
    assert group.peak() == 7000
    assert group.kills() == 2


def test_an_older_kernel_keeps_no_peak(tmp_path: Path):
    assert Group(written(tmp_path, {V2.usage: "1"}), V2).peak() is None


@pytest.mark.parametrize("text", ["max\n", "", "-5\n", "garbage\n"])
def test_a_file_that_holds_no_number_is_one_message(text: str, tmp_path: Path):
    written(tmp_path, {V2.usage: text, "memory.stat": STAT_2})
    with pytest.raises(ChargeError, match=r"memory\.current: .* is no number"):
        Group(tmp_path, V2).read()


def test_rows_that_are_garbage_or_missing_count_nothing(tmp_path: Path):
    written(tmp_path, {V2.usage: "5000", "memory.stat": "file x\nshmem\n\nanon 7 8\n"})
    assert Group(tmp_path, V2).read() == Charge(5000, 0, 0, 0)


def test_a_group_that_has_gone_is_one_message(tmp_path: Path):
    with pytest.raises(ChargeError, match=r"gone/memory\.stat: No such file"):
        Group(tmp_path / "gone", V2).read()


def test_the_group_of_a_process_in_both_versions(tmp_path: Path):
    one, two = version_1(tmp_path / "1", "a/b"), version_2(tmp_path / "2", "a/b")
    proc = process(tmp_path / "proc", "9:cpu:/x\n4:cpuset,memory:/a/b\n0::/\n")
    assert charge.of_process(1, one, proc) == Group(one / "memory/a/b", V1)
    proc = process(tmp_path / "proc", "0::/a/b\n")
    assert charge.of_process(1, two, proc) == Group(two / "a/b", V2)


def test_in_a_container_the_root_is_its_own_group(tmp_path: Path):
    two = written(version_2(tmp_path / "2"), {V2.usage: "3"})
    for path in ("/", "/docker/1234"):
        proc = process(tmp_path / "proc", f"0::{path}\n")
        assert charge.of_process(1, two, proc) == Group(two, V2)
    one = version_1(tmp_path / "1")
    proc = process(tmp_path / "proc", "4:memory:/docker/1234\n")
    assert charge.of_process(1, one, proc) == Group(one / "memory", V1)


def test_the_whole_system_is_no_group(tmp_path: Path):
    proc = process(tmp_path / "proc", "4:memory:/\n0::/\n")
    assert charge.of_process(1, version_1(tmp_path / "1"), proc) is None
    assert charge.of_process(1, version_2(tmp_path / "2"), proc) is None
    assert charge.of_process(1, tmp_path / "none", proc) is None
    assert charge.of_process(2, version_2(tmp_path / "2"), proc) is None  # no such process


def test_no_group_where_the_system_gives_none(tmp_path: Path):
    with MemoryGroup.made("x", tmp_path) as group:
        assert group is None
    root = version_2(tmp_path)  # without the memory controller for its children
    with MemoryGroup.made("x", root) as group:
        assert group is None
    assert not list(root.glob("llamalloc-*"))
    assert prefix(None, {"A": "b c"}) == ["env", "A=b c"]


def test_no_group_without_permission(tmp_path: Path, monkeypatch):
    def refused(*_args: object, **_named: object) -> None:
        raise PermissionError(13, "Permission denied")

    root = version_1(tmp_path)
    monkeypatch.setattr(Path, "mkdir", refused)
    with MemoryGroup.made("x", root) as group:
        assert group is None


def test_a_group_is_made_in_our_own_where_the_top_is_closed(tmp_path: Path, monkeypatch):
    root = version_2(tmp_path / "root", "user/app")
    mine = written(tmp_path / "proc", {f"{os.getpid()}/cgroup": "0::/user/app\n"})
    plain = Path.mkdir

    def kernel(folder: Path, **named: object) -> None:
        if folder.parent == root:
            raise PermissionError(13, "Permission denied")
        plain(folder, **named)
        for name in (V2.usage, "cgroup.procs"):
            (folder / name).write_text("")

    monkeypatch.setattr(Path, "mkdir", kernel)
    monkeypatch.setattr(MemoryGroup, "remove", lambda self: None)  # plain files would stay
    with MemoryGroup.made("x", root, mine) as group:
        assert group.folder.parent == root / "user/app"
        group.limit(1 << 30)
    assert (group.folder / "memory.max").read_text() == str(1 << 30)


def test_a_group_left_by_one_who_was_killed_goes_with_the_next(tmp_path: Path):
    root = version_1(tmp_path)
    left, used = (root / "memory" / f"llamalloc-x-{pid}" for pid in (10**8, os.getpid() - 1))
    left.mkdir()
    used.mkdir()
    proc = written(tmp_path / "proc", {f"{used.name.rpartition('-')[2]}/cgroup": ""})
    with MemoryGroup.made("x", root, proc) as group:
        assert group is None  # a plain folder is no group
    assert not left.exists()
    assert used.exists()


# ----- The sentence of `llamalloc report` -----

ROLLUP = "Rss: 3072 kB\nAnonymous: 2048 kB\nAnonHugePages: 1024 kB\n"


def running(folder: Path, group: str) -> Path:
    return written(folder, {
        "7/comm": "redis-server-of\n", "7/smaps_rollup": ROLLUP, "7/cgroup": f"0::{group}\n",
    })  # fmt: skip


def test_a_running_process_is_told_with_its_charge(tmp_path: Path):
    root = version_2(tmp_path / "root", "a")
    proc = running(tmp_path / "proc", "/a")
    assert memory_now.sentence(7, "/usr/bin/redis-server-of-ours", root, proc) == (
        "Now: its control group is charged for 4.1 KiB (all its processes, no page cache); "
        "RSS 3 MiB, of it 2 MiB anonymous memory, 50% of that on huge pages."
    )
    proc = running(tmp_path / "proc", "/")
    assert "no memory control group of its own" in memory_now.sentence(
        7, "redis-server-of-ours", root, proc
    )
    (root / "a" / "memory.stat").unlink()
    proc = running(tmp_path / "proc", "/a")
    said = memory_now.sentence(7, "redis-server-of-ours", root, proc)
    assert "its control group cannot be read; RSS 3 MiB" in said


def test_a_process_that_ended_or_is_another_is_not_told(tmp_path: Path):
    proc = running(tmp_path, "/a")
    assert memory_now.sentence(7, "nginx", tmp_path, proc) == ""
    assert memory_now.sentence(8, "redis-server-of", tmp_path, proc) == ""
    (proc / "7" / "smaps_rollup").unlink()
    assert memory_now.sentence(7, "redis-server-of", tmp_path, proc) == ""


# With real groups, where the system lets us.

HOLDS = "import time; kept = bytearray(64 << 20); print('held', flush=True); time.sleep(100)"


def started(group: MemoryGroup, script: str) -> subprocess.Popen:
    words = [*prefix(group, {}), sys.executable, "-c", script]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_program_is_charged_for_what_it_holds(group: MemoryGroup):
    with started(group, HOLDS) as program:
        assert program.stdout.readline() == "held\n"
        assert charge.of_process(program.pid) == Group(group.folder, group.version)
        found = group.read()
        program.kill()
    assert 64 << 20 <= found.charge < 120 << 20
    assert 64 << 20 <= found.anonymous <= found.charge
    assert group.peak() is None or group.peak() >= found.charge


def test_the_kernel_ends_what_passes_its_limit(group: MemoryGroup):
    group.limit(32 << 20)
    with started(group, HOLDS) as program:
        program.wait(60)
    assert program.returncode == -signal.SIGKILL
    assert group.kills() == 1


def test_a_group_goes_after_its_program_was_killed_and_with_one_that_runs():
    with MemoryGroup.made("killed") as made:
        if made is None:
            pytest.skip("no memory control group can be made here")
        with started(made, HOLDS) as program:
            program.stdout.readline()
            program.kill()
        runs = started(made, HOLDS)
        runs.stdout.readline()
    with runs:
        assert runs.wait(10) == -signal.SIGKILL
    assert not made.folder.exists()


def test_a_group_of_a_maker_that_was_killed_goes_with_the_next():
    script = (
        "import time; from llamalloc.running.memory_group import MemoryGroup\n"
        "with MemoryGroup.made('left') as group:\n"
        "    print(group.folder if group else '', flush=True); time.sleep(99)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as maker:
        folder = maker.stdout.readline().strip()
        maker.kill()
    if not folder:
        pytest.skip("no memory control group can be made here")
    deadline = time.monotonic() + 10
    while Path(folder).exists() and time.monotonic() < deadline:
        with MemoryGroup.made("next"):
            pass
    assert not Path(folder).exists()


TOLD = """
import subprocess, sys, time
from lab.command import exit_status
from llamalloc.running.memory_group import MemoryGroup, prefix

def run():
    with MemoryGroup.made("told") as group:
        if group is None:
            return 77
        program = subprocess.Popen([*prefix(group, {}), "sleep", "99"])
        while str(program.pid) not in (group.folder / "cgroup.procs").read_text().split():
            time.sleep(0.01)
        print(group.folder, program.pid, flush=True)
        program.wait()

sys.exit(exit_status("told", run, ()))
"""


def runs(pid: str) -> bool:
    """Whether it is there and has not ended."""
    state = procmem.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1]
    return state not in ([], ["Z"])


def test_a_command_that_is_told_to_end_takes_its_group_and_its_program_along():
    words = [sys.executable, "-c", TOLD]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as told:
        folder, _, pid = told.stdout.readline().strip().rpartition(" ")
        told.terminate()
    if told.returncode == 77:
        pytest.skip("no memory control group can be made here")
    assert told.returncode == 128 + signal.SIGTERM
    assert not Path(folder).exists()
    assert not runs(pid)


def test_a_program_with_arguments_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`report PID` of a process that only publishes counters."""
    for name in ("figures", "groups"):
        monkeypatch.setattr(look_up.published, name, lambda at: [])
    at = SimpleNamespace(number=lambda name: 1, gate="")
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            while procmem.read_text(procmem.PROC / str(process.pid) / "comm") != "sleep":
                time.sleep(0.01)
            named = look_up._document(at, process.pid)["command"]
            assert "RSS" in memory_now.sentence(process.pid, named)
        finally:
            process.kill()

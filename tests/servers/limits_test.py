# SPDX-License-Identifier: Apache-2.0
"""What happens near a memory limit: of a control group, or of the process's own options."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from preload import assert_quiet, compile_program, environment

from llamalloc.running import control
from llamalloc.running.memory_group import MemoryGroup, prefix

MIB = 1 << 20
LOAD, SWINGS = 200, 2
# The forecast keeps everything: the load just came back.
KEEPS = "release_forecast:peak,release_window:300s"


def statistics(conf: str, path: Path, group: MemoryGroup | None = None) -> dict[str, int]:
    """Of a program that leaves its huge pages sparse; it ends with all its bytes."""
    words = [str(compile_program("limits_load")), str(LOAD), str(SWINGS), "6"]
    env = environment(f"{conf},stats:{path}")
    if group is not None:
        words = [*prefix(group, {"LD_PRELOAD": env.pop("LD_PRELOAD")}), *words]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-1000:]}"
    if "soft_limit" not in conf:
        assert_quiet(done.stderr)
    else:
        assert done.stderr.count("soft_limit of") == 1, done.stderr
    return json.loads(path.read_text())["stats"]


def test_far_from_a_limit_the_forecast_holds(tmp_path: Path):
    stats = statistics(KEEPS, tmp_path / "stats")
    if stats["release_skipped"] == 0 and stats["bytes_broken"] == 0:
        pytest.skip("the process gets no huge pages")
    assert stats["release_skipped"] > LOAD * MIB // 4
    assert stats["bytes_broken"] == 0


def test_near_the_limit_of_a_group_nothing_is_skipped(tmp_path: Path):
    with MemoryGroup.made("limits") as group:
        if group is None:
            pytest.skip("no control group can be made here")
        first = (group.folder / "memory.limit_in_bytes").exists()
        limit = group.folder / ("memory.limit_in_bytes" if first else "memory.max")
        limit.write_text(str((LOAD + 24) * MIB))
        stats = statistics(KEEPS, tmp_path / "stats", group)
    assert stats["limit_releases"] > 0
    assert stats["bytes_broken"] > LOAD * MIB // 16  # until the limit is far again


def test_a_soft_limit_is_kept_and_named_once(tmp_path: Path):
    stats = statistics(f"{KEEPS},soft_limit:{LOAD // 2}MiB", tmp_path / "stats")
    assert stats["limit_releases"] > 0
    assert stats["backed"] < LOAD * MIB * 3 // 4


def test_a_forked_child_keeps_its_own_limit(tmp_path: Path):
    """With a plan, a forecast and a watch of its own, and a worker that it starts itself."""
    conf = f"{KEEPS},soft_limit:{LOAD // 2}MiB,stats:{tmp_path}/%p.json"
    words = [compile_program("limits_load"), str(LOAD), "1", "6", "fork"]
    done = subprocess.run(
        words, env=environment(conf), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-1000:]}"
    told = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    parent, child = sorted(told, key=lambda one: one["pid"])
    print([(one["pid"], one["stats"]["limit_releases"], one["stats"]["backed"]) for one in told])
    assert child["stats"]["limit_releases"] > parent["stats"]["limit_releases"]
    assert child["stats"]["backed"] < LOAD * MIB * 3 // 4


@pytest.mark.parametrize("large", [False, True])
def test_above_the_hard_limit_allocations_fail(*, large: bool):
    program = compile_program("limits_load")
    size = "10" if large else "400"
    env = environment(f"hard_limit:{4 if large else 200}MiB")
    words = [program, size, "1", "0"]
    done = subprocess.run(words, env=env, capture_output=True, timeout=60, check=False)
    assert done.returncode in ({3, -6} if large else {3}), done.stderr


@pytest.mark.parametrize(("first", "then"), [(32768, 1024), (1024, 32768)])
def test_at_the_hard_limit_what_one_kind_freed_serves_the_other(first: int, then: int):
    program = compile_program("limits_kinds")
    words = [program, str(first), str(then), "400"]
    done = subprocess.run(
        words, env=environment("hard_limit:128MiB"), capture_output=True, timeout=60, check=True
    )
    assert int(done.stdout) >= 64, "MiB of the second kind"


def test_limits_rate_and_window_change_at_run_time(tmp_path: Path):
    path = tmp_path / "control"
    words = [compile_program("limits_load"), str(LOAD), str(SWINGS), "60"]
    env = environment(f"{KEEPS},control:{path}")
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "at rest\n"
            for name, value in (
                ("release_rate", "5MiB"),
                ("release_window", "0"),
                ("release_forecast", "none"),
                ("hard_limit", "1GiB"),
                ("soft_limit", "32MiB"),
            ):
                control.ask(path, f"set {name} {value}")
            with pytest.raises(control.ControlError):
                control.ask(path, "set release_window 2h")
            end = time.monotonic() + 30
            while int(control.ask(path, "get backed")) > LOAD * MIB // 2:
                assert time.monotonic() < end, "nothing was released"
                time.sleep(0.2)
        finally:
            process.kill()

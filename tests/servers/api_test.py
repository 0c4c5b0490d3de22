# SPDX-License-Identifier: Apache-2.0
"""Every call of contracts/api.def keeps its contract, preloaded; and the C interface."""

import json
import re
import subprocess

import pytest
from preload import ROOT, compile_program, environment, run

from llamalloc.formats import contracts, profile
from llamalloc.running import control

PARTS = (
    "sizes", "alignments", "refusals", "realloc", "errno", "sized", "glibc", "hints", "tokens",
    "operators", "malloc_info", "mallopt", "statistics",
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_calls_keep_their_contracts(part):
    done = run([compile_program("api_calls"), part], seconds=60)
    assert re.fullmatch(r"ok \d+\n", done.stdout)


@pytest.mark.parametrize("part", PARTS[:-1])
def test_calls_keep_their_contracts_in_hardened_mode(part):
    """But for `statistics`: freed objects are held back there, and keep their pages."""
    run([compile_program("api_calls"), part], seconds=60, conf="hardened:on")


def test_malloc_stats_prints_every_statistic():
    code = "import ctypes; ctypes.CDLL(None).malloc_stats()"
    done = subprocess.run(
        ["python3", "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    glibc = re.findall(r"^(system|in use) bytes     = +(\d+)$", done.stderr, re.MULTILINE)
    assert [words for words, _ in glibc] == ["system", "in use"] * 2
    assert int(glibc[0][1]) >= int(glibc[1][1]) > 0 and int(glibc[2][1]) >= int(glibc[3][1])
    printed = re.findall(r"^llamalloc: (\w+) +\d+ ", done.stderr, re.MULTILINE)
    assert printed == [stat.name for stat in contracts.stats()]


def test_values_are_read_and_changed_by_name():
    assert run([compile_program("c_interface"), "values"], seconds=20).stdout == "ok\n"


def test_the_header_is_c(tmp_path):
    source = tmp_path / "a.c"
    source.write_text('#include "llamalloc/llamalloc.h"\nint x = sizeof(&llamalloc_get);\n')
    subprocess.run(
        ["gcc", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-c", source,
         "-I", ROOT / "include", "-o", tmp_path / "a.o"], check=True,
    )  # fmt: skip


def test_samples_carry_the_tag_of_their_thread(tmp_path):
    """The program allocates 20 MB each as `left`, `right` in a nested scope, and untagged."""
    path, stats = tmp_path / "p.pb.gz", tmp_path / "s.json"
    conf = f"profile:{path},stats:{stats},sample_interval:4KiB"
    run([compile_program("c_interface"), "tags"], seconds=60, conf=conf)
    sums = {row["tag"]: row for row in json.loads(stats.read_text())["tags"]}
    assert {"left", "right", ""} <= sums.keys()
    for tag in ("left", "right"):
        whole = sums[tag]["live_bytes"] + sums[tag]["freed_bytes"]
        assert whole == pytest.approx(20e6, rel=0.15)
    assert sums["left"]["live_bytes"] == pytest.approx(10e6, rel=0.2)
    assert sums["right"]["live_bytes"] == 0
    contexts = profile.read(path).contexts
    tagged = {tag: sum(c.allocated_bytes for c in contexts if c.tag == tag) for tag in sums}
    assert tagged["left"] == pytest.approx(20e6, rel=0.15)
    assert tagged["right"] == pytest.approx(20e6, rel=0.15)


def test_control_socket_reads_values(tmp_path):
    path = tmp_path / "socket"
    process = subprocess.Popen(["sleep", "30"], env=environment(f"control:{path},retain:16MiB"))
    try:
        deadline = 100
        while not path.exists() and deadline:
            deadline -= 1
            subprocess.run(["sleep", "0.05"], check=True)
        assert control.ask(path, "get retain") == f"{16 << 20}\n"
        assert control.ask(path, "get on_misuse") == "abort\n"
        assert control.ask(path, "set on_misuse report") == ""
        assert control.ask(path, "get on_misuse") == "report\n"
        assert int(control.ask(path, "get reserved")) > 0
        with pytest.raises(control.ControlError, match="no such statistic or option"):
            control.ask(path, "get nonsense")
    finally:
        process.terminate()
        process.wait()

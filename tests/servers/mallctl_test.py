# SPDX-License-Identifier: Apache-2.0
"""jemalloc's mallctl: what callers ask is answered, and Redis tells the truth about its memory.

Debian's redis-server is linked with jemalloc. Before llamalloc answered mallctl, the jemalloc that
Redis brings did: it described a heap that nobody uses.
"""

import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from preload import Server, compile_program, free_port, run

from llamalloc.formats import contracts

JEMALLOC = """
#include <stdio.h>
__attribute__((weak)) const char* malloc_conf;
__attribute__((constructor)) static void begin(void) { puts(malloc_conf ? malloc_conf : ""); }
"""


def test_what_callers_ask():
    done = run([compile_program("mallctl")], seconds=60)
    said, _, document = done.stdout.partition("\n")
    assert said == "ok"
    assert "Allocated: " in done.stderr
    found = json.loads(document)["jemalloc"]
    stats = found["stats"]
    assert stats["resident"] >= stats["active"] >= stats["allocated"] > 0
    assert found["arenas"]["nbins"] == len(found["arenas"]["bin"]) > 10
    assert set(found["llamalloc"]) == {row.name for row in contracts.stats()}


@pytest.mark.parametrize("own", [None, "narenas:1"])
def test_a_jemalloc_that_nobody_uses_takes_no_huge_pages(own: str | None, tmp_path: Path):
    """It finds its options where jemalloc looks for them; those of the program come first."""
    library, program = tmp_path / "libjemalloc.so", tmp_path / "program"
    (tmp_path / "library.c").write_text(JEMALLOC)
    (tmp_path / "program.c").write_text(
        (f'const char* malloc_conf = "{own}";' if own else "") + "int main(void) {}"
    )
    gcc = ["gcc", "-Wl,--no-as-needed", "-o"]
    subprocess.run([*gcc, library, "-shared", "-fPIC", tmp_path / "library.c"], check=True)
    subprocess.run([*gcc, program, "-rdynamic", tmp_path / "program.c", library], check=True)
    assert run([program], seconds=20).stdout == (own or "thp:never") + "\n"


@pytest.mark.skipif(not shutil.which("dig"), reason="dig is missing")
def test_what_jemalloc_alone_can_do_goes_on_to_it(tmp_path: Path):
    """Of a program that is linked with it, only malloc and its like are ours.

    BIND takes its memory by mallocx, which is jemalloc's, and gives it back by sdallocx, which is
    ours: each of its programs aborted.
    """
    link = ("-Wl,--no-as-needed", "-l:libjemalloc.so.2")  # which dig needs, too
    early = ("-shared", "-fPIC", *link)
    library = compile_program("jemalloc_early", tmp_path, *early)
    program = compile_program("jemalloc_beside", tmp_path, *link, str(library))
    assert run([program], seconds=60).stdout == "ok\n"
    assert run(["dig", "-v"], seconds=20).stderr.startswith("DiG ")


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is missing")
def test_redis_tells_the_truth(tmp_path: Path):
    port = free_port()
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    command += ["--enable-debug-command", "yes"]

    def ask(*words: str) -> str:
        done = subprocess.run(
            ["redis-cli", "-p", str(port), *words],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return done.stdout

    with Server(command, port, tmp_path):
        ask("debug", "populate", "100000", "key", "500")
        deadline = time.monotonic() + 20
        while True:  # Redis asks ten times a second, and tells what it heard last
            text = ask("info", "memory")
            info = {k: float(v) for k, v in re.findall(r"^(\w+):([0-9.]+)\r?$", text, re.MULTILINE)}
            if info["allocator_allocated"] > 30e6 or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        assert info["allocator_allocated"] == pytest.approx(info["used_memory"], rel=0.2)
        assert info["allocator_active"] >= info["allocator_allocated"]
        assert info["allocator_resident"] >= info["allocator_active"]
        assert info["allocator_resident"] <= 1.5 * info["used_memory_rss"]
        assert ask("memory", "purge") == "OK\n"
        text = ask("memory", "malloc-stats")
        line = re.search(
            r"^Allocated: (\d+), active: (\d+), metadata: \d+ .*, resident: (\d+), mapped: \d+, "
            r"retained: \d+$", text, re.MULTILINE,
        )  # fmt: skip
        allocated, active, resident = map(int, line.groups())
        assert resident >= active >= allocated > 30e6
        assert text.startswith("___ Begin jemalloc statistics ___")

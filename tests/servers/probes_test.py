# SPDX-License-Identifier: Apache-2.0
"""The USDT probes `otel_memory:alloc` and `otel_memory:free` on sampled objects.

gdb is the tracer: it reads the notes, sets the semaphores and breaks at the probes, as an eBPF
profiler does, and needs no privileges. bpftrace is asked, too, where the kernel lets it.
"""

import os
import platform
import re
import shutil
import subprocess

import pytest
from preload import compile_program, environment, library

from llamalloc.formats import elf

NOP = {"x86_64": 0x90, "aarch64": 0x1F}[platform.machine()]
REGISTERS = {"x86_64": ("%rdi", "%rsi", "%rdx"), "aarch64": ("x0", "x1", "x2")}
ARGUMENTS = [f"8@{name}" for name in REGISTERS[platform.machine()]]
INTERVAL = 64 << 10


def test_the_notes_follow_the_contract():
    """Arguments where the platform passes those of a call, a nop at the place, a semaphore each."""
    found = {p.name: p for p in elf.probes(library()) if p.provider == "otel_memory"}
    assert set(found) == {"alloc", "free"}
    assert found["alloc"].arguments.split() == ARGUMENTS
    assert found["free"].arguments.split() == ARGUMENTS[:1]
    assert all(p.code == NOP for p in found.values())
    assert all(p.semaphore for p in found.values())
    assert found["alloc"].semaphore != found["free"].semaphore


@pytest.mark.skipif(not shutil.which("gdb"), reason="gdb is missing: apt-get install gdb")
def test_a_tracer_sees_what_is_sampled(tmp_path):
    """Of 36 MiB in blocks of 4 KiB: each free is of an object that was seen before."""
    script = tmp_path / "script"
    conf = f"profile:{tmp_path}/p.pb.gz,sample_interval:{INTERVAL}"
    script.write_text(
        f"set pagination off\nset breakpoint pending on\nset confirm off\n"
        f"set environment LD_PRELOAD {library()}\nset environment LLAMALLOC_CONF {conf}\n"
        "set startup-with-shell off\nstart\n"
        "break -probe-stap otel_memory:alloc\ncommands\nsilent\n"
        'printf "alloc %lx %lu %lu\\n", $_probe_arg0, $_probe_arg1, $_probe_arg2\n'
        "continue\nend\n"
        "break -probe-stap otel_memory:free\ncommands\nsilent\n"
        'printf "free %lx\\n", $_probe_arg0\ncontinue\nend\n'
        "continue\n"
    )
    done = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", "-x", script, compile_program("phases")],
        input="\n", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "ptrace: Operation not permitted" in done.stderr:
        pytest.skip("this system lets no process trace another")
    live, weighted = set(), 0
    for line in done.stdout.splitlines():
        if match := re.fullmatch(r"alloc ([0-9a-f]+) (\d+) (\d+)", line):
            live.add(match[1])
            assert int(match[3]) >= int(match[2]) > 0
            weighted += int(match[3])
        elif match := re.fullmatch(r"free ([0-9a-f]+)", line):
            live.discard(match[1])
    assert 24 << 20 < weighted < 50 << 20, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(live) < 200


@pytest.mark.skipif(not shutil.which("bpftrace"), reason="bpftrace is missing")
def test_bpftrace_lists_and_traces_them(tmp_path):
    """The tracer prints a line for each kind, if the kernel lets it."""
    probe = f"usdt:{library()}:otel_memory"
    program = f"{probe}:alloc {{ @bytes = sum(arg2); }} {probe}:free {{ @frees = count(); }}"
    command = ["bpftrace", "-e", program, "-c", str(compile_program("phases"))]
    env = environment(f"profile:{tmp_path}/p.pb.gz,sample_interval:{INTERVAL}")
    clean = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    preload = [f"LD_PRELOAD={env['LD_PRELOAD']}", f"LLAMALLOC_CONF={env['LLAMALLOC_CONF']}"]
    command[-1] = " ".join(["/usr/bin/env", *preload, command[-1]])
    done = subprocess.run(
        command, env=clean, input="\n", capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"bpftrace may not trace here: {done.stderr.strip()[-200:]}")
    counts = dict(re.findall(r"@(\w+): (\d+)", done.stdout))
    assert int(counts["bytes"]) > 24 << 20 and int(counts["frees"]) > 100

# SPDX-License-Identifier: Apache-2.0
"""Profiles of programs that move their samples, and that load and unload their code."""

import json
import subprocess

import pytest
from preload import ROOT, compile_program, run

from llamalloc.formats import profile

MODEL = f"segregate:always,model:{ROOT}/contracts/golden/model_v3.safetensors"
SOURCE = """
#include <stdlib.h>
#include <string.h>
void* %s(int n) { return memset(malloc(n), 1, n); }
void* plug_make(int n) { void* p = %s(n); __asm__ volatile("" ::: "memory"); return p; }
"""
FILLER = "".join(f"void filler_{i}(void) {{}}\n" for i in range(4000))


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    """A folder with large.so and small.so, whose code differs."""
    folder = tmp_path_factory.mktemp("plugins")
    for name, more in (("large", FILLER), ("small", "")):
        source = folder / f"{name}.c"
        source.write_text(SOURCE % (f"make_{name}", f"make_{name}") + more)
        flags = ["-O1", "-fno-builtin", "-fno-inline", "-fno-optimize-sibling-calls"]
        command = ["gcc", *flags, "-shared", "-fPIC", source, "-o", folder / f"{name}.so"]
        subprocess.run(command, check=True, timeout=120)
    return folder


def test_samples_that_the_system_moved_die_where_they_are_freed(tmp_path):
    path = tmp_path / "p.pb.gz"
    conf = f"profile:{path},sample_interval:1KiB"
    assert int(run([compile_program("moved_samples")], seconds=60, conf=conf).stdout) > 100
    contexts = [c for c in profile.read(path).contexts if c.bytes >= 2 << 20]
    assert sum(c.sampled for c in contexts) >= 300
    assert [c for c in contexts if c.censored_objects != 0] == []


def test_frames_have_names_after_the_main_thread_has_ended(tmp_path):
    """The last thread ends the process, although the worker and the sockets' thread run."""
    path = tmp_path / "p.pb.gz"
    conf = f"profile:{path},sample_interval:4KiB,control:{tmp_path}/socket"
    run([compile_program("main_ends")], seconds=60, conf=conf)
    written = profile.read(path)
    frames = {frame for context in written.contexts for frame in context.frames}
    assert any("allocate_without_main" in frame for frame in frames), frames
    assert not any(frame.startswith("?main_ends") for frame in frames), frames


@pytest.mark.parametrize("more", ["", ",hardened:on"])
def test_large_alignments_are_sampled(tmp_path, more):
    """With the size asked for; those that were freed have died, the others live.

    All are far above the interval: nearly each is a sample.
    """
    path = tmp_path / "p.pb.gz"
    conf = f"profile:{path},sample_interval:1KiB{more}"
    run([compile_program("aligned_samples")], seconds=60, conf=conf)
    contexts = profile.read(path).contexts
    freed = [c for c in contexts if any("make_and_free" in frame for frame in c.frames)]
    kept = [c for c in contexts if any("make_and_keep" in frame for frame in c.frames)]
    assert sum(c.sampled for c in freed) >= 390
    assert all(c.censored_objects == 0 for c in freed)
    assert sum(c.sampled for c in kept) >= 95
    assert all(c.deallocated_objects == 0 for c in kept)
    assert all(c.allocated_bytes == 70_000 * c.allocated_objects for c in freed + kept)


@pytest.mark.parametrize("more", ["", ",hardened:on"])
def test_large_alignments_are_placed_by_the_model(tmp_path, more):
    """The golden model says `brief` of nearly all."""
    path = tmp_path / "s.json"
    run([compile_program("aligned_samples")], seconds=60, conf=f"{MODEL},stats:{path}{more}")
    groups = {g["group"]: g["allocated"] for g in json.loads(path.read_text())["groups"]}
    assert groups["brief"] > 70_000 * 50
    assert groups["brief"] > groups["unknown"]


def reload(folder, path, *arguments):
    conf = f"profile:{path},profile_flush:100ms,sample_interval:1KiB"
    return run([compile_program("plugins"), *arguments], seconds=120, conf=conf, cwd=folder)


def test_a_plugin_is_replaced_in_place(plugins, tmp_path):
    """Cut to nothing and written again, between dlclose and dlopen; each keeps its own samples."""
    path = tmp_path / "p.pb.gz"
    reload(plugins, path, "replaced", "6")
    names = {frame for c in profile.read(path).contexts for frame in c.frames}
    assert {"make_large", "make_small", "plug_make"} <= names
    for context in profile.read(path).contexts:
        assert not {"make_large", "make_small"} <= set(context.frames)


def test_new_files_without_end_cost_nothing(plugins, tmp_path):
    """No mapping is left of any, no file stays open; what was sampled in them has its names."""
    path = tmp_path / "p.pb.gz"
    early, late = (int(n) for n in reload(plugins, path, "new", "40").stdout.split())
    assert late <= early + 3
    names = {frame for c in profile.read(path).contexts for frame in c.frames}
    assert "make_small" in names

# SPDX-License-Identifier: Apache-2.0
"""Plugins that are rebuilt while a server runs with a model: what one taught goes with it, and
what the server taught stays."""

import json
import subprocess
from pathlib import Path

import pytest
from preload import ROOT, run

from llamalloc.formats import learned_state

MODEL = f"segregate:always,model:{ROOT}/contracts/golden/model_v3.safetensors"
PLUGIN = """
#include <stdlib.h>
__attribute__((noinline)) void* wrap(size_t n) {
  volatile char room[FRAME]; room[0] = 1; void* p = malloc(n); room[1] = p != 0; return p; }
void* one(size_t n) { void* p = wrap(n); __asm__ volatile(""); return p; }
void* two(size_t n) { volatile char deeper[64]; deeper[0] = 1; void* p = wrap(n); deeper[1] = 1;
  return p; }
"""
ROUNDS = 20
OWN_CONTEXTS = 20 * 5


def build(folder: Path, build_id: str) -> list[Path]:
    """The server, and its plugin with a large frame and with a small one."""
    server, source = folder / "plugins_server", folder / "plugin.c"
    source.write_text(PLUGIN)
    made = [server]
    flags = ["-O1", "-g", "-fno-builtin"]
    subprocess.run(
        ["gcc", *flags, Path(__file__).with_name("plugins_server.c"), "-o", server], check=True
    )
    for frame in (16000, 400):
        made.append(folder / f"plugin{frame}.so")
        shape = [f"-DFRAME={frame}", f"-Wl,--build-id={build_id}", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, *shape, source, "-o", made[-1]], check=True)
    return made


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_hundreds_of_loads_take_bounded_tables(tmp_path, build_id):
    """What is known of a plugin holds for each load of it."""
    server, *plugins = build(tmp_path, build_id)
    stats, state = tmp_path / "s.json", tmp_path / "state"
    found = []
    for rounds in (60, 240):
        conf = f"learn:{state},segregate:always,sample_interval:1KiB,stats:{stats}"
        run([server, str(rounds), *plugins], seconds=120, conf=conf)
        told = json.loads(stats.read_text())["stats"]
        found.append((told["samples"], told["metadata"], len(learned_state.read(state).nodes)))
        print(rounds, "loads of each: samples, metadata, nodes", found[-1])
    (few, before, nodes), (many, after, later) = found
    assert many > 2 * few
    assert after - before < 1 << 20
    assert later < 1.5 * nodes + 20


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_what_a_plugin_taught_goes_with_it(tmp_path, build_id):
    server, *plugins = build(tmp_path, build_id)
    stats = tmp_path / "s.json"
    run([server, str(ROUNDS), *plugins], seconds=60, conf=f"{MODEL},stats:{stats}")
    found = json.loads(stats.read_text())["stats"]
    print({name: n for name, n in found.items() if name.startswith("predict_")})
    assert found["predict_forgotten"] >= ROUNDS
    again = ROUNDS * OWN_CONTEXTS  # if the server's own were forgotten with each plugin
    assert found["predict_misses"] + found["predict_dropped"] < again

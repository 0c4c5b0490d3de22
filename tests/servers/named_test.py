# SPDX-License-Identifier: Apache-2.0
"""What a model knows by name is placed right at the first allocation, whatever the process did
before: loaded a plugin, forked, was interrupted by a signal."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from preload import ROOT, run

from llamalloc.formats import model_file
from llamalloc.formats.contracts import class_names
from llamalloc.formats.frame_names import caller_key, name_key
from llamalloc.formats.learned_state import extend_key
from llamalloc.formats.model_file import OPEN, Evidence

BYTES = 64 * 500_000
HUGE_PAGE = 2 << 20  # that of unknown objects; what stays fills its holes
PLUGIN = """
#include <stdlib.h>
static __attribute__((noinline)) void* inner(size_t size) {
  void* p = malloc(size); __asm__ volatile(""); return p; }
void* plugin_record(size_t size) { void* p = inner(size); __asm__ volatile(""); return p; }
"""


@pytest.fixture(scope="module")
def load(tmp_path_factory) -> Path:
    """The folder with the program, its plugin and a model of both, by name alone."""
    folder = tmp_path_factory.mktemp("named")
    source = Path(__file__).with_name("named_load.c")
    flags = ["gcc", "-O1", "-fno-builtin"]
    subprocess.run([*flags, source, "-o", folder / "load"], check=True)
    (folder / "plugin.c").write_text(PLUGIN)
    shape = ["-shared", "-fPIC", folder / "plugin.c", "-o", folder / "plugin.so"]
    subprocess.run([*flags, *shape], check=True)
    _write_model(folder / "names.model")
    return folder


def _write_model(path: Path) -> None:
    """`own_record`, and `inner` called by `plugin_record`, make what stays."""
    never = class_names().index("never")
    size = extend_key(extend_key(None, name_key("inner")), 64)
    nodes = {
        extend_key(None, name_key("own_record")): never,
        extend_key(None, name_key("inner")): 0x80,
        size: 0x80,
        extend_key(size, name_key("plugin_record")): never,
    }
    for name in ("own_record", "inner", "plugin_record"):
        nodes[extend_key(None, caller_key(name))] = OPEN
    golden = model_file.read(ROOT / "contracts/golden/model_v3.safetensors")
    keys = sorted(nodes)
    evidence = Evidence(
        name_keys=np.array(keys, np.uint64),
        name_answers=np.array([(nodes[key], never) for key in keys], np.uint8),
        name_samples=np.ones(len(keys), np.uint32),
    )
    model_file.write(replace(golden, evidence=evidence, programs=()), path)


def _groups(load: Path, kind: str, tmp_path: Path) -> dict[str, int]:
    conf = f"segregate:always,model:{load / 'names.model'},stats:{tmp_path}/%p.json"
    run([load / "load", kind, load / "plugin.so"], seconds=60, conf=conf)
    said = [json.loads(file.read_text()) for file in tmp_path.glob("*.json")]
    most = max(said, key=lambda one: sum(group["allocated"] for group in one["groups"]))
    return {group["group"]: group["allocated"] for group in most["groups"]}


@pytest.mark.parametrize("kind", ["own", "plugin", "forked", "handler"])
def test_the_first_object_of_a_context_lies_where_its_name_says(load, kind, tmp_path):
    groups = _groups(load, kind, tmp_path)
    assert groups["permanent"] >= BYTES - HUGE_PAGE, groups


def test_where_no_file_may_be_opened_the_process_lives(load):
    conf = f"segregate:always,model:{load / 'names.model'}"
    run([load / "load", "filter", load / "plugin.so"], seconds=60, conf=conf)

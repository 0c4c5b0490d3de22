# SPDX-License-Identifier: Apache-2.0
""".github/workflows/ci.yml calls make targets, presets and scripts that exist."""

import json
import re
import subprocess

from tree import ROOT

TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def matrix(name: str) -> list[str]:
    """Values of a row of a job's matrix."""
    return re.search(rf"^ +{name}: \[(.*)\]", TEXT, re.MULTILINE)[1].split(", ")


def test_the_matrix_is_of_presets_that_exist():
    presets = {
        p["name"] for p in json.loads((ROOT / "CMakePresets.json").read_text())["testPresets"]
    }
    assert set(matrix("preset")) == {"release", "debug", "sanitize", "tsan"} <= presets
    assert matrix("compiler") == ["gcc", "clang"]
    assert matrix("hugepages") == ["always", "madvise", "never"]


def test_what_it_runs_exists():
    for script in re.findall(r"run: ((?:scripts|\.ci)/\S+)", TEXT):
        assert (ROOT / script).is_file(), script
    targets = {
        t.replace("${{ matrix.preset }}", "tsan") for t in re.findall(r"run: make (.+)", TEXT)
    }
    assert targets >= {"ctest-tsan", "wheel"}
    for target in targets:
        command = ["make", "--dry-run", "--no-print-directory", target]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60)

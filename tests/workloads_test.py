# SPDX-License-Identifier: Apache-2.0
"""Every workload that can run here, small, under the library; and the microbenchmark's figures."""

import json

import pytest

from lab.workloads import runner, swing
from lab.workloads.programs import ALL
from llamalloc.running import launch


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.name)
def test_a_workload_runs_under_the_library(recipe):
    if recipe.missing():
        pytest.skip(f"not installed: {', '.join(recipe.missing())}")
    options = runner.Options(preload=str(launch.find_library()), scale=0.02, settle=0)
    assert runner.run(recipe, options, lambda text: None).seconds > 0


def test_the_heap_that_swings_leaves_survivors_together(tmp_path, capsys):
    file = tmp_path / "figures.json"
    load = ["--peak", "64", "--survivors", "128"]
    apart = ["--conf", "share_pages_below:0"]  # so small a heap would share them
    assert swing.main(["--only", "glibc,learned", "--json", str(file), *apart, "--", *load]) == 0
    glibc, learned = json.loads(file.read_text())
    assert glibc["survivors"] == learned["survivors"] == 128 << 10
    assert glibc["survivor_huge_pages"] > 25  # nearly all of the heap
    assert learned["survivor_huge_pages"] <= 5
    assert "learned" in capsys.readouterr().out


def test_the_swing_names_an_unknown_row(capsys):
    assert swing.main(["--only", "nosuch"]) == 2
    assert "no row nosuch; there are glibc," in capsys.readouterr().err

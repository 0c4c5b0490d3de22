# SPDX-License-Identifier: Apache-2.0
"""lab.sites at a small scale: every program is what its way says, and the tool measures it."""

import json

import pytest

from lab.sites import build, main, rows
from lab.sites.ways import VARIANTS, WAYS

SMALL = ["--peak", "24", "--survivors", "128", "--settle", "0.2", "--runs", "1"]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_return_addresses_show_the_way(way, variant):
    try:
        build.built(way, variant)  # raises BuildError if they show another
    except build.LackError as error:
        pytest.skip(str(error))


def test_unfolded_functions_are_seen(monkeypatch, tmp_path):
    folded = next(way for way in WAYS if way.name == "folded")
    monkeypatch.setattr(build, "OUT", tmp_path)
    monkeypatch.setattr(build, "folding_linker", lambda: ())
    with pytest.raises(build.BuildError, match=r"folded, O2: return addresses show Told\(shared=0"):
        build.built(folded, VARIANTS[0])


def test_ways_and_guards_are_measured(tmp_path, capsys):
    what = ["--ways", "wrapper", "--variants", "O2", "--peers", "glibc", "--fill", "full"]
    status = main.main([*what, *SMALL, "--out", str(tmp_path)])
    read = json.loads((tmp_path / "results.json").read_text())
    (case,) = read["cases"]
    assert set(case["runs"]) == set(read["rows"]) >= {"blind", "glibc"}
    assert not any(c["failed"] for c in (case, *read["guarded"]))
    blind, glibc = case["runs"]["blind"][0], case["runs"]["glibc"][0]
    assert blind["live"] == glibc["live"] == 128 << 10
    assert min(blind["rss"], glibc["rss"]) > 24 << 20  # the survivors hold all of it
    assert blind["regions"] >= 24 << 20 and blind["statistics"]["version"] == 1
    assert read["floor"]["live"] == 128 << 10
    assert read["floor"]["rss"] < blind["rss"] / 2
    assert "MiB after the drop" in capsys.readouterr().out
    assert status in (0, 1)
    assert rows.can_learn() == ("second" in case["runs"])


def test_a_paced_fill_takes_its_time(tmp_path):
    what = ["--ways", "wrapper", "--variants", "O2", "--guards", "none"]
    main.main([*what, *SMALL, "--fill", "paced", "--pace", "48", "--out", str(tmp_path)])
    (case,) = json.loads((tmp_path / "results.json").read_text())["cases"]
    assert case["runs"]["blind"][0]["fill"] > 0.4


@pytest.mark.parametrize("way", ["two_functions", "wrapper"])
def test_a_first_run_at_full_speed_teaches_the_second(way, tmp_path):
    # In half a second 1 GiB is full: looked up at every allocation, it may seem too dear to place.
    what = ["--ways", way, "--variants", "O2", "--guards", "none", "--fill", "full", "--runs", "1"]
    main.main([*what, "--out", str(tmp_path)])
    (case,) = json.loads((tmp_path / "results.json").read_text())["cases"]
    assert not case["failed"]
    assert case["runs"]["blind"][0]["held"] > 1 << 30
    (second,) = case["runs"]["second"]
    assert second["held"] < 24 << 20, second["statistics"]["segregation"]


@pytest.mark.parametrize("way", ["two_functions", "wrapper3"])
def test_a_model_of_another_build_places_the_first_wave(way, tmp_path):
    # By names, before the worker could say any: at full speed, it comes when the heap is full.
    what = ["--ways", way, "--variants", "O2", "--guards", "none", "--fill", "full"]
    load = ["--peak", "256", "--survivors", "1280", "--settle", "4", "--runs", "1"]
    model = ["--next-build", "--model", "--conf", "segregate:always,sample_interval:64KiB"]
    main.main([*what, *load, *model, "--out", str(tmp_path)])
    (case,) = json.loads((tmp_path / "results.json").read_text())["cases"]
    assert not case["failed"]
    (second,) = case["runs"]["second"]
    assert any("of another build" in line for line in second["said"])
    assert second["statistics"]["model"] == "loaded"
    assert case["runs"]["blind"][0]["held"] > 256 << 20
    assert second["held"] < 16 << 20

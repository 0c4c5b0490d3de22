# SPDX-License-Identifier: Apache-2.0
"""scripts/release_maps.py: it runs, and what it writes is what the simulator said."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOURS = "0.1"
MIB = 1 << 20


@pytest.fixture(scope="module")
def maps():
    spec = importlib.util.spec_from_file_location("release_maps", ROOT / "scripts/release_maps.py")
    module = sys.modules["release_maps"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.RATES, module.WINDOWS, module.SEEDS = ("0", "1TiB"), ("0", "60s"), (1,)
    module.LOADS = module.LOADS[:2]
    return module


@pytest.fixture(scope="module")
def made(maps, tmp_path_factory) -> Path:
    """A folder with what a run over a few minutes of two loads made."""
    folder = tmp_path_factory.mktemp("maps")
    (folder / "img").mkdir()
    text = f"before\n{maps.BEGIN}\nold\n{maps.END}\nafter\n"
    (folder / "release.md").write_text(text, encoding="utf-8")
    maps.main(["--hours", HOURS, "--out", str(folder), "--docs", str(folder)])
    return folder


def rows_of(made: Path) -> dict[str, dict[str, list[str]]]:
    """The cells by load and policy."""
    rows: dict[str, dict[str, list[str]]] = {}
    for line in (made / "release.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("**"):
            load = rows[line.split("**")[1]] = {}
        elif line.startswith("| ") and not line.startswith("| policy"):
            name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            load[name] = cells
    return rows


def test_there_is_a_row_for_every_load_and_policy(maps, made):
    rows = rows_of(made)
    assert list(rows) == [load.name for load in maps.LOADS]
    for load in rows.values():
        assert list(load) == [name for name, _ in maps.VARIANTS]
    text = (made / "release.md").read_text(encoding="utf-8")
    assert text.startswith(f"before\n{maps.BEGIN}\n") and text.endswith(f"\n{maps.END}\nafter\n")
    assert "old" not in text


def test_the_pictures_are_drawn(made):
    for name in ("release_maps.png", "release_accuracy.png"):
        assert (made / "img" / name).read_bytes().startswith(b"\x89PNG")


def share(text: str) -> float:
    return float(text.rstrip("%")) / 100


# Each cell by itself, from the JSON of the simulator for the same trace.
def test_the_cells_are_what_the_simulator_says(maps, made):
    tool = ROOT / "build/release/llamalloc-simulate"
    trace = made / f"bursts-1-{HOURS}.trace"
    for name, conf in maps.VARIANTS:
        command = [tool, trace, "--predictor", "none", "--samples", "1000", "--conf", conf]
        said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        releases, peak = said["releases"], said["trace"]["peak_live"]
        cells = rows_of(made)["bursts"][name]
        assert share(cells[0]) == pytest.approx(said["totals"]["coverage"], abs=0.0006)
        assert float(cells[1]) == pytest.approx(said["totals"]["average"], abs=0.0006)
        for cell, key in ((cells[2], "realized"), (cells[3], "average")):
            level = releases[f"{key}_fragmentation"]
            assert share(cell) == pytest.approx(level / peak, abs=0.0006)
        counts = [int(cells[i].removesuffix(" MiB").replace(",", "")) for i in range(4, 8)]
        assert counts == [
            releases["pages_broken"],
            releases["bytes_broken"] // MIB,
            releases["pages_mended"],
            releases["huge_pages_refetched"],
        ]
        right, wrong = releases["skipped_right"], releases["skipped_wrong"]
        judged = right + wrong
        assert cells[8] == (f"{100 * right / judged:.0f}%" if judged else "-")


def test_the_policies_differ(made):
    rows = rows_of(made)["bursts"]
    broken = {name: int(cells[4].replace(",", "")) for name, cells in rows.items()}
    assert broken["static, no rate"] > broken["trend 60 s, no rate (tcmalloc)"]
    assert rows["static, no rate"][8] == "-" != rows["peak 60 s, no rate"][8]


def test_a_load_is_as_long_as_asked_for(maps):
    for load in maps.LOADS:
        words = load.options(hours=1, seed=7)
        of = dict(zip(words[::2], words[1::2], strict=True))
        per_hour = int(of["--events"]) / load.hours
        assert per_hour == pytest.approx(3600 * 12_000 / load.slow)
        assert (of["--wave"], of["--period"], of["--seed"]) == (load.wave, str(load.period), "7")

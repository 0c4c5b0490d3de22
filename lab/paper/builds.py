# SPDX-License-Identifier: Apache-2.0
"""Table 2 and figure 10b: what is learned from one build, asked about another (lab.versions)."""

from __future__ import annotations

import json
import subprocess
import sys

from lab.paper.context import Context, PaperError
from lab.paper.section import Exhibit, Results, Section, percent
from lab.places import ROOT

PROGRAM = "rocksdb"  # C++ with templates; python -m lab.versions does Redis, too
_NAMES = "name table"  # an exact match of the names of all frames, as in the paper's table 2


def measure(context: Context) -> Results:
    """What lab.versions found: its results.json. Raises PaperError."""
    out = context.out / "versions"
    command = [sys.executable, "-m", "lab.versions", "--programs", PROGRAM, "--out", str(out)]
    context.say(" ".join(command[1:]))
    (out / "results.json").unlink(missing_ok=True)  # an earlier measurement's
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1} or not (out / "results.json").exists():
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise PaperError(f"lab.versions failed: {said[-1]}")
    return json.loads((out / "results.json").read_text())


def show(results: Results) -> Section:
    """A line for each kind of change: contexts that match by name, and who is right how often."""
    section = Section("Table 2 and figure 10b: other builds and versions")
    section.paragraphs.append(
        "RocksDB of two Debian releases, compiled by gcc and clang. Matching: contexts of the new "
        "build whose frame names all match one that was learned from. Right: share of allocations "
        "for which a predictor names the right page group. The paper, for its image server: "
        "58.31 % of traces match a week apart, 0.38 % five months apart, 0.10 % without "
        "optimisation; its network is right for upwards of 80 %."
    )
    found: dict[str, list[Results]] = {}
    for case in results["cases"]:
        found.setdefault(case["relation"], []).append(case["scores"]["all"])
    all_runs = [run for runs in found.values() for run in runs]
    predictors = list(dict.fromkeys(name for run in all_runs for name in run))
    section.table(
        ("learned from", "matching", *predictors),
        [_row(relation, runs, predictors) for relation, runs in found.items()],
    )
    section.paragraphs += [f"Left out: {line}." for line in results["missing"]]
    return section


def _row(relation: str, runs: list[Results], predictors: list[str]) -> list[str]:
    matching = _mean(run[_NAMES]["unweighted"]["known"] for run in runs)
    right = (_mean(r[name]["weighted"]["group"] for r in runs if name in r) for name in predictors)
    return [relation, percent(matching), *map(percent, right)]


def _mean(values: object) -> float:
    found = list(values)
    return sum(found) / len(found) if found else 0.0


EXHIBIT = Exhibit("table2", 6, measure, show)

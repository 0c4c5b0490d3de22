# SPDX-License-Identifier: Apache-2.0
"""The heat maps and the tables of docs/release.md: hours of virtual time, one command.

    .venv/bin/python scripts/release_maps.py [--hours 1] [--jobs 2] [--out out/release]
                                             [--docs docs]

It generates loads that swing (llamalloc-generate), simulates each with several release policies
(llamalloc-simulate --conf), draws the maps of figure 11 of "Adaptive Huge-Page Subrelease for
Non-moving Memory Allocators" (ISMM 2021) and the distribution of figure 10, and replaces the part
of release.md between its marks; both in the folder of `--docs`. `--hours 0.01` shows within seconds
that all of it runs; its figures say nothing.
"""

import argparse
import concurrent.futures
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

TREE = Path(__file__).parent.parent
BUILD = TREE / "build/release"
SIZES = TREE / "workloads/fleetbench/TCMALLOC_3.csv"
BEGIN, END = "<!-- made by scripts/release_maps.py -->", "<!-- end -->"
RATES = ("0", "1MiB", "10MiB", "100MiB", "1TiB")
WINDOWS = ("0", "10s", "30s", "60s", "300s")
MIB = 1 << 20
SEEDS = (1, 2)
BRIGHT = 0.7  # of the colour map, where white figures cannot be read


@dataclass(frozen=True)
class Load:
    """A generated load: about 600 events a second, or 60 where it lasts for days."""

    name: str
    meaning: str
    wave: str
    period: int  # seconds
    slow: int
    hours: float  # times --hours

    def options(self, hours: float, seed: int) -> list[str]:
        events = int(self.hours * hours * 3600 * 12_000 / self.slow)
        return [
            *("--smallest", "4096", "--largest", "262144", "--live", "64", "--sessions", "0.3"),
            *("--slow", str(self.slow), "--wave", self.wave, "--period", str(self.period)),
            *("--events", str(events), "--threads", "4", "--seed", str(seed)),
        ]


LOADS = (
    Load("bursts", "every 2 minutes a spike of random height and length", "bursts", 120, 20, 1),
    Load("waves", "a sine of 40 s", "sine", 40, 20, 1),
    Load("steps", "eight levels in 10 minutes", "steps", 600, 20, 1),
    Load("days", "a day, with hours and minutes on it", "days", 86400, 200, 24),
)
VARIANTS = (
    ("static 10 MiB/s", "release_forecast:none,release_rate:10MiB"),
    ("static, no rate", "release_forecast:none"),
    ("peak 60 s, 10 MiB/s (the paper)", "release_forecast:peak,release_rate:10MiB"),
    ("peak 60 s, no rate", "release_forecast:peak"),
    ("trend 60 s, no rate (tcmalloc)", "release_forecast:trend"),
    ("auto (the default)", "release_forecast:auto"),
)


def run(command: list[str | Path]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr.strip()}")
    return done.stdout


def trace_of(load: Load, seed: int, hours: float, out: Path) -> Path:
    path = out / f"{load.name}-{seed}-{hours:g}.trace"
    if not path.exists():
        run([BUILD / "llamalloc-generate", SIZES, "-o", path, *load.options(hours, seed)])
    return path


def simulate(trace: Path, conf: str) -> dict:
    command = [BUILD / "llamalloc-simulate", trace, "--predictor", "none", "--samples", "1000"]
    return json.loads(run([*command, "--conf", conf]))


def accuracy(result: dict) -> float | None:
    releases = result["releases"]
    judged = releases["skipped_right"] + releases["skipped_wrong"]
    return releases["skipped_right"] / judged if judged else None


def resident_by_live(result: dict) -> float:
    samples = [m for m in result["moments"] if m["kind"] == "sample"]
    return sum(m["resident"] for m in samples) / sum(m["live"] for m in samples)


def row_of(name: str, result: dict) -> str:
    releases, totals = result["releases"], result["totals"]
    peak = result["trace"]["peak_live"]
    right = accuracy(result)
    realized = releases["realized_fragmentation"] / peak
    average = releases["average_fragmentation"] / peak
    return (
        f"| {name} | {totals['coverage']:.1%} | {resident_by_live(result):.3f} "
        f"| {realized:.2%} | {average:.1%} "
        f"| {releases['pages_broken']:,} | {releases['bytes_broken'] // MIB:,} MiB "
        f"| {releases['pages_mended']:,} | {releases['huge_pages_refetched']:,} "
        f"| {'-' if right is None else f'{right:.0%}'} |"
    )


def table_of(load: Load, seed_results: dict[str, dict]) -> str:
    first = next(iter(seed_results.values()))
    trace = first["trace"]
    hours, events = trace["duration_ns"] / 3.6e12, trace["events"]
    lines = [
        f"**{load.name}**: {load.meaning}; {hours:.1f} h, {events:,} events, "
        f"at most {trace['peak_live'] // MIB} MiB live.",
        "",
        "| policy | coverage | resident / live | realized | average free | pages broken "
        "| bytes broken | mended | refetched | skips right |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(row_of(name, result) for name, result in seed_results.items())])


def draw_maps(results: dict[tuple[str, str], dict], path: Path) -> None:
    def of_peak(result: dict, which: str) -> float:
        return 100 * result["releases"][f"{which}_fragmentation"] / result["trace"]["peak_live"]

    panels = (
        ("huge-page coverage, %", lambda r: 100 * r["totals"]["coverage"]),
        ("realized fragmentation, % of the peak", lambda r: of_peak(r, "realized")),
        ("average free, % of the peak", lambda r: of_peak(r, "average")),
        ("skips that were right, %", lambda r: 100 * (accuracy(r) or 0)),
    )
    figure, axes = plt.subplots(1, len(panels), figsize=(18, 4.2), layout="constrained")
    for axis, (title, value) in zip(axes, panels, strict=True):
        grid = [[value(results[rate, window]) for rate in RATES] for window in WINDOWS]
        drawn = axis.imshow(grid, cmap="viridis", aspect="auto", origin="lower")
        for y, line in enumerate(grid):
            for x, number in enumerate(line):
                ink = "black" if drawn.norm(number) > BRIGHT else "white"
                axis.text(x, y, f"{number:.1f}", ha="center", va="center", color=ink)
        axis.set_xticks(range(len(RATES)), [*RATES[:-1], "any"])
        axis.set_yticks(range(len(WINDOWS)), WINDOWS)
        axis.set(title=title, xlabel="release_rate, a second", ylabel="release_window")
    figure.savefig(path, dpi=90)
    plt.close(figure)


def draw_accuracy(accuracies: dict[str, list[float]], path: Path) -> None:
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, values in accuracies.items():
        ordered = sorted(values)
        shares = [(i + 1) / len(ordered) for i in range(len(ordered))]
        axis.step([100 * v for v in ordered], shares, where="post", label=name, marker="o")
    axis.set(xlabel="skips that were right, %", ylabel="share of loads")
    axis.set(xlim=(0, 101), ylim=(0, 1.02))
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def replace_part(document: Path, text: str) -> None:
    old = document.read_text(encoding="utf-8")
    head, rest = old.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    document.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=TREE / "out/release")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--docs", type=Path, default=TREE / "docs")
    arguments = parser.parse_args(words)
    out, hours, docs = arguments.out, arguments.hours, arguments.docs
    out.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        keys = [(load, seed) for load in LOADS for seed in (SEEDS if load.name != "days" else (1,))]
        traces = dict(zip(keys, pool.map(lambda k: trace_of(*k, hours, out), keys), strict=True))
        cells = [(rate, window) for rate in RATES for window in WINDOWS]
        conf = "release_forecast:peak,release_rate:{},release_window:{}"
        maps = pool.map(lambda c: simulate(traces[LOADS[0], 1], conf.format(*c)), cells)
        maps = dict(zip(cells, maps, strict=True))
        tasks = [(key, variant) for key in keys for variant in VARIANTS]
        found = pool.map(lambda t: simulate(traces[t[0]], t[1][1]), tasks)
        results = dict(zip(tasks, found, strict=True))
    draw_maps(maps, docs / "img/release_maps.png")
    followed = [variant for variant in VARIANTS if "none" not in variant[1]]
    accuracies = {
        name: [a for key in keys if (a := accuracy(results[key, (name, text)])) is not None]
        for name, text in followed
    }
    draw_accuracy(accuracies, docs / "img/release_accuracy.png")
    tables = [
        table_of(load, {name: results[(load, 1), (name, text)] for name, text in VARIANTS})
        for load in LOADS
    ]
    replace_part(docs / "release.md", "\n\n".join(tables))


if __name__ == "__main__":
    main()

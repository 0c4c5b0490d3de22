# SPDX-License-Identifier: Apache-2.0
"""Table 4: what an allocation costs. Figure 11b: what a prediction costs."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from lab.allocators import Allocator
from lab.bench import rows
from lab.paper.context import Context, PaperError
from lab.paper.section import Exhibit, Results, Section
from lab.places import BUILD, ROOT

ROWS = ("pair_64", "batch_fifo", "churn_10k", "churn_1m", "remote_free")
NAMES = ("tcmalloc", "jemalloc-5.3.0", "llamalloc")
PREDICTED = "llamalloc, by prediction"
_LEARNING = 3.0  # seconds of a run that only learns
_SAMPLES = ",sample_interval:64KiB"  # in it, as a heap of a few objects is sampled only if told so
BENCH = BUILD / "src" / "predict" / "evaluator_bench"
_LINE = re.compile(r"^network\s+(\d+) tokens\s+([\d.]+) us", re.MULTILINE)


def measure(context: Context) -> Results:
    """speed: least ns of processor time by row and allocator; inference: (tokens, us)."""
    by_name, missing = context.present(NAMES)
    found = list(by_name.values())
    speed: Results = {}
    for name in ROWS:
        row = next(row for row in rows.micro() if row.name == name)
        speed[row.title] = _least(context, row, [*found, _predicting(context, row, found)])
    return {"speed": speed, "missing": missing, "inference": _inference(context)}


def _least(context: Context, row: rows.Row, found: list[Allocator]) -> dict[str, float]:
    """Of five rounds; a busy neighbour only ever adds."""
    samples: dict[str, list[float]] = {one.name: [] for one in found}
    for turn in range(5):
        context.say(f"{row.title}, round {turn + 1}")
        for one in found:
            figures = rows.sample(row, one, context.seconds, False)
            samples[one.name].append(figures["cpu_ns"])
    return {name: min(values) for name, values in samples.items()}


@dataclass(frozen=True)
class _Predicting(Allocator):
    """Ours, placing by what an earlier run has learned."""

    state: Path = Path()
    options: str = ""

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "LLAMALLOC_CONF": f"learn:{self.state},segregate:always{self.options}",
        }


def _predicting(context: Context, row: rows.Row, found: list[Allocator]) -> Allocator:
    ours = next(one for one in found if one.ours)
    state = context.out / f"bench-{row.name}.learned"
    one = _Predicting(**(vars(ours) | {"name": PREDICTED}), state=state)
    if not state.exists():
        rows.sample(row, replace(one, options=_SAMPLES), _LEARNING, False)
    return one


def _inference(context: Context) -> list[tuple[int, float]]:
    context.say("building the benchmark of inference")
    build = ["cmake", "--build", "--preset", "release", "--target", BENCH.name]
    try:
        subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=True)
        done = subprocess.run([BENCH], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PaperError(f"{BENCH.name} could not be built or run: {error}") from error
    return [(int(tokens), float(us)) for tokens, us in _LINE.findall(done.stdout)]


def show(results: Results) -> Section:
    """ns of a malloc and free by row; us of an inference by length."""
    section = Section("Table 4 and figure 11b: the cost of an allocation and of a prediction")
    section.paragraphs.append(
        "Nanoseconds of processor time for a malloc and a free, the least of five. The paper, on "
        "another machine: TCMalloc 8.3 ns on its fast path and 81.7 ns on the slow one; its own "
        "heap 28.6 ns without prediction, 48.8 ns with a cached one, 144 us if the model must run."
    )
    section.paragraphs += [f"Left out: {line}." for line in results["missing"]]
    names = list(dict.fromkeys(name for by in results["speed"].values() for name in by))
    section.table(("", *names), [
        (title, *(f"{by[name]:.1f}" if name in by else "-" for name in names))
        for title, by in results["speed"].items()
    ])  # fmt: skip
    section.table(("tokens of a context", "us of the network"), results["inference"])
    return section


EXHIBIT = Exhibit("table4", 4, measure, show)

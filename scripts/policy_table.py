# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/heap_policy.md: policies and predictors over recorded traces.

    .venv/bin/python scripts/policy_table.py out/traces/*.trace [--out out/policy.json]
    .venv/bin/python scripts/policy_table.py --learning [--generate out/traces] [out/traces/*.trace]
    .venv/bin/python scripts/policy_table.py --models [--generate out/traces] [out/traces/*.trace]

The first places by every prediction (segregate:always). The second makes the table of learning in
process: blind, a first run that begins with nothing, and a second one that begins with what the
first kept. A cell is the mean over runs whose worker comes at other moments, since memory depends
on those; in brackets it is divided by blind. The third makes the same table for processes with a
model, as the gate decides: a model that is always wrong, one that knows each context, one that was
trained from what an earlier run learned, and a wrong one that claims proof. `--generate` makes the
five loads of GENERATED in that folder, and measures them too.

Record the traces first, each by
    .venv/bin/python -m lab.workloads run NAME --under "llamalloc trace -o out/traces/NAME.trace"
A cell: charge by live bytes, averaged over the trace, and after its drops (a `-`:
it has none, or what stays is below 5 % of the peak, where the quotient says nothing).
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np

from llamalloc.formats import contracts, model_file
from llamalloc.formats.learned_state import Gate, GateVerdict, GateWaste
from llamalloc.formats.model_file import Evidence, Model, Weights

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "build/release/llamalloc-simulate"
GENERATOR = ROOT / "build/release/llamalloc-generate"
# Seeds of their own. In `heavy` lives do not separate: in each context 1 object in 1,000 stays.
GENERATED = {
    "sine": "TCMALLOC_1.csv --events 5000000 --live 64 --period 6 --seed 11",
    "steps": "TCMALLOC_3.csv --events 4000000 --live 128 --wave steps --period 6 --depth 1 "
    "--seed 12",
    "heavy": "TCMALLOC_1.csv --events 5000000 --live 64 --wave steps --period 6 --heavy 1 "
    "--sessions 0 --batches 0 --seed 13",
    "sessions": "TCMALLOC_3.csv --events 4000000 --live 96 --wave steps --period 8 --sessions 0.5 "
    "--seed 14",
    "steady": "TCMALLOC_1.csv --events 4000000 --live 64 --wave none --seed 15",
}
# By so many ms the background work begins later. In a small heap one huge page matters: what nginx
# holds after a drop varies by half from moment to moment.
DELAYS = range(0, 1000, 250)
DELAYS_OF_SMALL = range(0, 1000, 8)
SMALL = 64 << 20
# All but the last of a network that looks at nothing.
_SHAPES = ((2, 4), (1, 4), (4, 4), (64, 4), (4, len(contracts.class_names())))
# Always too short, always too long, right.
MODELS = ("constant:le_10ms", "constant:never", "exact")
COLUMNS = (
    ("llamalloc", "none"),
    ("llamalloc", "constant:le_10ms"),
    ("llamalloc", "oracle"),
    ("llamalloc", "exact"),
    ("llamalloc", "site"),
    ("llamalloc", "site:0.95"),
    ("slabs-lowest", "none"),
    ("slabs-fullest", "none"),
    ("best-fit", "none"),
    ("paper-k2", "oracle"),
    ("paper-k2", "exact"),
)


def simulate(trace: pathlib.Path, policy: str, predictor: str, *more: str | pathlib.Path) -> dict:
    command = [TOOL, trace, "--policy", policy, "--predictor", predictor, "--samples", "300", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{trace}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def placed(policy: str, predictor: str) -> tuple[str, ...]:
    """The gate is not asked."""
    gated = policy == "llamalloc" and predictor != "none"
    return ("--conf", "segregate:always") if gated else ()


def generate(folder: pathlib.Path) -> list[pathlib.Path]:
    folder.mkdir(parents=True, exist_ok=True)
    traces = []
    for name, options in GENERATED.items():
        sizes, *words = options.split()
        traces.append(folder / f"generated-{name}.trace")
        command = [GENERATOR, ROOT / "workloads/fleetbench" / sizes, "-o", traces[-1], *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return traces


def over_delays(run_all: Callable[[int], list[dict]]) -> list[list[dict]]:
    """Its runs for each delay. The first one tells how large the trace is."""
    first = run_all(0)
    is_small = first[0]["trace"]["peak_live"] < SMALL
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [first, *pool.map(run_all, (DELAYS_OF_SMALL if is_small else DELAYS)[1:])]


def learn(trace: pathlib.Path, folder: pathlib.Path) -> list[list[dict]]:
    """For each delay, the runs of the table of learning in its order."""

    def run_all(delay: int) -> list[dict]:
        kept = folder / f"{trace.stem}-{delay}.learned"
        runs = (("none",), ("online", "--keep", kept), (f"state:{kept}",))
        return [simulate(trace, "llamalloc", *run, "--delay", str(delay)) for run in runs]

    return over_delays(run_all)


def forge(path: pathlib.Path) -> None:
    """A model that predicts at most 10 ms for everything, and claims proof that placement pays."""
    is_chosen = np.array(contracts.class_names()) == "le_10ms"
    bias = np.where(is_chosen, np.float32(50), np.float32(0))
    weights = Weights(*(np.zeros(shape, np.float32) for shape in _SHAPES), bias)
    waste = GateWaste(rounds=2, high=50, low=350, depth=350, ratio=1600)
    proof = Gate(GateVerdict.ON_TRIAL, 0, waste, peak=400)
    asked = Evidence(network_trust=np.ones(4, np.float32))
    model_file.write(Model(("<unk>", "@"), weights, "tail", asked, (), proof), path)


def use_models(trace: pathlib.Path, folder: pathlib.Path) -> list[list[dict]]:
    """For each delay, the runs of the table of models in its order."""
    kept, model = folder / f"{trace.stem}.learned", folder / f"{trace.stem}.model"
    simulate(trace, "llamalloc", "online", "--keep", kept)
    train = [ROOT / ".venv/bin/llamalloc", "train", "-o", model, kept]
    subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
    forged = folder / "forged.model"
    forge(forged)
    predictors = ("none", *MODELS, f"model:{model}", f"model:{forged}")

    def run_all(delay: int) -> list[dict]:
        return [simulate(trace, "llamalloc", p, "--delay", str(delay)) for p in predictors]

    return over_delays(run_all)


def print_beside_blind(traces: list[pathlib.Path], heads: tuple[str, ...], measure) -> None:
    head = ["trace", "peak live", "blind", *heads]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces:
            columns = list(zip(*measure(trace, pathlib.Path(folder)), strict=True))
            blind = means(columns[0])
            cells = [f"{columns[0][0]['trace']['peak_live'] / 2**20:.0f} MiB", cell(blind)]
            cells += [beside(means(runs), blind) for runs in columns[1:]]
            cells.append(", ".join(sorted({verdict_of(run) for run in columns[-1]})))
            print(f"| {trace.stem} | {' | '.join(cells)} |", flush=True)


def verdict_of(run: dict) -> str:
    """What the gate says in the end; of a model without a single prediction nothing."""
    return run["gate"][-1]["verdict"] if run["gate"] else "-"


def means(runs: tuple[dict, ...]) -> list[float]:
    """Average and after drops; no second one without drops."""
    average = sum(run["totals"]["average"] for run in runs) / len(runs)
    drops = [ratio for run in runs if (ratio := ratio_after_drops(run)) is not None]
    return [average, sum(drops) / len(drops)] if drops else [average]


def cell(ratios: list[float]) -> str:
    return " / ".join([*(f"{ratio:.3f}" for ratio in ratios), "-"][:2])


def beside(ratios: list[float], blind: list[float]) -> str:
    by_blind = " / ".join(f"{a / b:.3f}" for a, b in zip(ratios, blind, strict=True))
    return f"{cell(ratios)} ({by_blind})"


def ratio_after_drops(result: dict) -> float | None:
    drops = [m for m in result["moments"] if m["kind"] == "drop"]
    drops = [m for m in drops if m["live"] > 0.05 * result["trace"]["peak_live"]]
    live = sum(m["live"] for m in drops)
    return sum(m["resident"] for m in drops) / live if live else None


def after_drops(result: dict) -> str:
    ratio = ratio_after_drops(result)
    return "-" if ratio is None else f"{ratio:.2f}"


CAUSES = ("rounding", "free_slots", "free_blocks", "empty_pages", "thread_caches", "metadata")


def lost_by_cause(result: dict) -> str:
    samples = [m for m in result["moments"] if m["kind"] == "sample"]
    live = sum(m["live"] for m in samples)
    shares = [100 * sum(m[cause] for m in samples) / live for cause in CAUSES]
    return " | ".join(f"{share:.1f} %" for share in shares) + f" | {sum(shares):.0f} %"


def print_policies(traces: list[pathlib.Path], out: pathlib.Path | None) -> None:
    jobs = [(t, p, w) for t in traces for p, w in COLUMNS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: simulate(*job, *placed(*job[1:])), jobs))
    found = dict(zip(jobs, results, strict=True))
    head = ["trace", "peak live"] + [f"{p} {w}" for p, w in COLUMNS]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for trace in traces:
        row = [trace.stem, f"{found[trace, *COLUMNS[0]]['trace']['peak_live'] / 2**20:.0f} MiB"]
        for column in COLUMNS:
            result = found[trace, *column]
            row.append(f"{result['totals']['average']:.2f} / {after_drops(result)}")
        print("| " + " | ".join(row) + " |", flush=True)
    print("\nhuge pages acquired:")
    for trace in traces:
        counts = (found[trace, *c]["totals"]["huge_pages_acquired"] for c in COLUMNS)
        print(f"| {trace.stem} | " + " | ".join(str(n) for n in counts) + " |")
    print("\nlost on average, of what is live, with the oracle:")
    print("| trace | " + " | ".join(c.replace("_", " ") for c in CAUSES) + " | sum |")
    for trace in traces:
        print(f"| {trace.stem} | {lost_by_cause(found[trace, 'llamalloc', 'oracle'])} |")
    if out:
        out.write_text(json.dumps({" ".join(map(str, k)): v for k, v in found.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=pathlib.Path)
    parser.add_argument("--learning", action="store_true", help="the table of learning in process")
    parser.add_argument("--models", action="store_true", help="the table of processes with a model")
    parser.add_argument("--generate", type=pathlib.Path, help="make GENERATED in this folder")
    parser.add_argument("--out", type=pathlib.Path, help="all results, as JSON")
    args = parser.parse_args()
    if args.generate:
        args.traces += generate(args.generate)
    if not args.traces:
        parser.error("name a trace, or --generate FOLDER")
    if args.learning:
        heads = ("first run", "second run", "gate in the second run")
        print_beside_blind(args.traces, heads, learn)
    elif args.models:
        heads = (*MODELS, "trained", "wrong with forged proof", "its gate at the end")
        print_beside_blind(args.traces, heads, use_models)
    else:
        print_policies(args.traces, args.out)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/heap_policy.md: policies and predictors over recorded traces.

    .venv/bin/python scripts/policy_table.py out/traces/*.trace [--out out/policy.json]

Record the traces first, each by
    .venv/bin/python -m lab.workloads run NAME --under "llamalloc trace -o out/traces/NAME.trace"
A cell: footprint in huge pages by live bytes, averaged over the trace, and after its drops (a `-`:
it has none, or what stays is below 5 % of the peak, where the quotient says nothing).
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

TOOL = pathlib.Path(__file__).parent.parent / "build/release/llamalloc-simulate"
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


def simulate(trace: pathlib.Path, policy: str, predictor: str) -> dict:
    command = [TOOL, trace, "--policy", policy, "--predictor", predictor, "--samples", "300"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{trace}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def after_drops(result: dict) -> str:
    drops = [m for m in result["moments"] if m["kind"] == "drop"]
    drops = [m for m in drops if m["live"] > 0.05 * result["trace"]["peak_live"]]
    live = sum(m["live"] for m in drops)
    return f"{sum(m['huge'] for m in drops) / live:.2f}" if live else "-"


CAUSES = ("rounding", "free_slots", "free_blocks", "empty_pages", "thread_caches", "metadata")


def lost_by_cause(result: dict) -> str:
    samples = [m for m in result["moments"] if m["kind"] == "sample"]
    live = sum(m["live"] for m in samples)
    shares = [100 * sum(m[cause] for m in samples) / live for cause in CAUSES]
    return " | ".join(f"{share:.1f} %" for share in shares) + f" | {sum(shares):.0f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, help="all results, as JSON")
    args = parser.parse_args()
    jobs = [(t, p, w) for t in args.traces for p, w in COLUMNS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: simulate(*job), jobs))
    found = dict(zip(jobs, results, strict=True))
    head = ["trace", "peak live"] + [f"{p} {w}" for p, w in COLUMNS]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for trace in args.traces:
        row = [trace.stem, f"{found[trace, *COLUMNS[0]]['trace']['peak_live'] / 2**20:.0f} MiB"]
        for column in COLUMNS:
            result = found[trace, *column]
            row.append(f"{result['totals']['average_huge']:.2f} / {after_drops(result)}")
        print("| " + " | ".join(row) + " |", flush=True)
    print("\nhuge pages acquired:")
    for trace in args.traces:
        counts = (found[trace, *c]["totals"]["huge_pages_acquired"] for c in COLUMNS)
        print(f"| {trace.stem} | " + " | ".join(str(n) for n in counts) + " |")
    print("\nlost on average, of what is live, with the oracle:")
    print("| trace | " + " | ".join(c.replace("_", " ") for c in CAUSES) + " | sum |")
    for trace in args.traces:
        print(f"| {trace.stem} | {lost_by_cause(found[trace, 'llamalloc', 'oracle'])} |")
    if args.out:
        args.out.write_text(json.dumps({" ".join(map(str, k)): v for k, v in found.items()}))


if __name__ == "__main__":
    main()

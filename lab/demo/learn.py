# SPDX-License-Identifier: Apache-2.0
"""The demo's learning half: record two runs, learn the first, measure on the second."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from lab.demo import allocators
from lab.demo.measure import recorded
from lab.demo.results import Results
from lab.launcher import LLAMALLOC
from lab.redis_benchmark import Workload

RECORDED_ROW = next(row for row in allocators.ROWS if row.name == "plain")


class LearnError(RuntimeError):
    """Recording or training failed; the message says how."""


def learn(
    results: Results, workload: Workload, out: Path, reuse: bool, say: Callable[[str], None]
) -> None:
    """Leaves redis.pb.gz and redis.model in `out`, and what was found in `results`.

    redis-benchmark seeds itself from clock and process, so that every run is one of another seed.
    With `reuse`, files of an earlier demo are taken where all are there.
    """
    kept = [out / name for name in ("redis.model", "redis.pb.gz", "training.json")]
    if reuse and all(path.exists() for path in kept):
        say("taking the model of the last demo")
    else:
        _record(results, workload, out, say)
        _train(out, say)
    results.training = json.loads((out / "training.json").read_text())


def _record(results: Results, workload: Workload, out: Path, say: Callable[[str], None]) -> None:
    for name, purpose in (("redis", "to learn from"), ("redis-holdout", "to measure on")):
        say(f"redis-server on llamalloc, recording lifetimes {purpose}")
        profile = out / f"{name}.pb.gz"
        run = recorded(RECORDED_ROW, workload, profile, out / "logs", lambda s: say(f"    {s}"))
        if run.faults or not profile.exists():
            raise LearnError(f"recording failed: {'; '.join(run.faults) or 'no profile'}")
        results.recorded.append(run)


def _train(out: Path, say: Callable[[str], None]) -> None:
    say("learning lifetimes (llamalloc train)")
    command = [*LLAMALLOC, "train", "-o", str(out / "redis.model"), str(out / "redis.pb.gz")]
    command += ["--holdout", str(out / "redis-holdout.pb.gz"), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise LearnError(f"llamalloc train ended with {done.returncode}; see its message above")
    (out / "training.json").write_text(done.stdout)
    model = json.loads(done.stdout)["scores"]["measured"].get("model")
    if model:
        say(f"    {model['weighted']:.1%} of allocations of the other run predicted right")

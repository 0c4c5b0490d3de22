# SPDX-License-Identifier: Apache-2.0
"""Writes contracts/golden/ anew: `python python/tests/make_golden.py [NAME...]`.

Names: tokens, profile, model, trace, learned, evidence, labels.

Golden files change only with their contract; the tests then say which twin lags behind.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from support import (
    golden_learned,
    golden_model,
    golden_profile,
    golden_trace,
    label_cases,
    profile_writer,
)
from support.token_cases import CASES

from llamalloc.formats import learned_state, model_file, tokens
from llamalloc.learning.evidence import verdict
from llamalloc.learning.labels import CLASS_NAMES

GOLDEN = Path(__file__).resolve().parents[2] / "contracts" / "golden"


def make_tokens() -> None:
    """tokens.json: a list of cases."""
    cases = [{"frames": f, "size": s, "tokens": tokens.tokens(f, s)} for f, s in CASES]
    (GOLDEN / "tokens.json").write_text(f"{_lines(cases)}\n", encoding="ascii")


def make_profile() -> None:
    """profile_v1.pb.gz and what it holds."""
    profile_writer.write(golden_profile.PROFILE, GOLDEN / "profile_v1.pb.gz")
    document = golden_profile.as_json(golden_profile.PROFILE)
    contexts = document.pop("contexts")
    head = json.dumps(document, ensure_ascii=True)[:-1]
    text = f'{head},\n"contexts": {_lines(contexts)}}}\n'
    (GOLDEN / "profile_v1.json").write_text(text, encoding="ascii")


def make_model() -> None:
    """model_v3.safetensors, with inputs and expected probabilities."""
    model = golden_model.model()
    model_file.write(model, GOLDEN / "model_v3.safetensors")
    cases, lookups = (_lines(f(model)) for f in (golden_model.cases, golden_model.lookups))
    text = f'{{"cases": {cases},\n"lookups": {lookups}}}\n'
    (GOLDEN / "model_v3.json").write_text(text, encoding="ascii")


def make_trace() -> None:
    """trace_v1_observed.trace, as recorded; trace_v1.trace, numbered."""
    (GOLDEN / "trace_v1_observed.trace").write_bytes(golden_trace.observed())
    (GOLDEN / "trace_v1.trace").write_bytes(golden_trace.resolved())


def make_learned() -> None:
    """learned_v2.learned; version 1 is no longer written."""
    (GOLDEN / "learned_v2.learned").write_bytes(learned_state.pack(golden_learned.STATE))


def make_evidence() -> None:
    """evidence.json: counts of sampled lifetimes, and the class that follows."""
    cases = [asdict(node) | {"verdict": verdict(node) or ""} for node in golden_learned.EVIDENCE]
    kept = [{k: case[k] for k in ("deaths", "young", "elders", "verdict")} for case in cases]
    (GOLDEN / "evidence.json").write_text(f'{{"cases": {_lines(kept)}}}\n', encoding="ascii")


def make_labels() -> None:
    """labels.json: how objects of a context ended, and the class that rule `tail` gives it."""
    cases = [asdict(case) | {"class": CLASS_NAMES[case.label]} for case in label_cases.CASES]
    (GOLDEN / "labels.json").write_text(f'{{"cases": {_lines(cases)}}}\n', encoding="ascii")


def _lines(items: list) -> str:
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=True) for item in items) + "\n]"


MAKERS = {
    "tokens": make_tokens,
    "profile": make_profile,
    "model": make_model,
    "trace": make_trace,
    "learned": make_learned,
    "evidence": make_evidence,
    "labels": make_labels,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        MAKERS[name]()

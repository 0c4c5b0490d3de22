# SPDX-License-Identifier: Apache-2.0
"""The table of the students: right page group on contexts that neither table knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lab.versions import measure
from lab.versions.cases import Case
from lab.versions.scores import Scored, mean

Scores = list[tuple[Case, dict[str, Scored]]]


def show(scores: Scores, folder: Path) -> int:
    """Prints the table and writes students.json; 0 if a student is above the prior, else 1."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"learn": [str(run) for run in case.learn], "test": str(case.test),
         "relation": case.relation, "scores": {n: s.to_json() for n, s in found.items()}}
        for case, found in scores
    ]  # fmt: skip
    (folder / "students.json").write_text(json.dumps(rows, indent=1) + "\n")
    text = "\n".join(_table(scores)) + "\n"
    (folder / "students.md").write_text(text)
    print(text)
    print("\n".join(f"versions: {line}" for line in verdicts(scores)))
    return 0 if winners(scores) else 1


def winners(scores: Scores) -> list[str]:
    """Students that beat the prior by allocations and by contexts, in every program."""
    found = []
    for name in _names(scores):
        pairs = [(by[name], by[measure.PRIOR]) for by in _by_program(scores).values() if name in by]
        if name != measure.PRIOR and pairs and all(_is_above(*pair) for pair in pairs):
            found.append(name)
    return found


def verdicts(scores: Scores) -> Iterator[str]:
    """One line on whether any network has earned its place."""
    found = winners(scores)
    if found:
        yield f"above the site prior in every program: {', '.join(found)}"
    else:
        yield "no network is above the site prior in every program: it stays off by default"


def _is_above(one: Scored, prior: Scored) -> bool:
    return (
        one.weighted.group > prior.weighted.group and one.unweighted.group > prior.unweighted.group
    )


def _by_program(scores: Scores) -> dict[str, dict[str, Scored]]:
    """Program -> predictor -> mean over its cases."""
    found = {}
    for program in dict.fromkeys(case.program for case, _ in scores):
        mine = [some for case, some in scores if case.program == program and some]
        names = dict.fromkeys(name for some in mine for name in some)
        found[program] = {n: mean(some[n] for some in mine if n in some) for n in names}
    return {program: by for program, by in found.items() if by}


def _names(scores: Scores) -> list[str]:
    return list(dict.fromkeys(name for _, found in scores for name in found))


def _table(scores: Scores) -> Iterator[str]:
    programs = _by_program(scores)
    heads = [
        f"{program}, by {unit}" for program in programs for unit in ("allocations", "contexts")
    ]
    yield f"| predictor | {' | '.join(heads)} |"
    yield "|---" * (1 + len(heads)) + "|"
    for name in _names(scores):
        cells = []
        for by in programs.values():
            score = by.get(name)
            shares = (score.weighted.group, score.unweighted.group) if score else ()
            cells += [f"{100 * share:.1f} %" for share in shares] or ["", ""]
        yield f"| {name} | {' | '.join(cells)} |"

# SPDX-License-Identifier: Apache-2.0
"""All scores of a call: means by program and relation, as tables for a terminal and for docs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.versions import measure
from lab.versions.cases import OTHER_RUN, OTHER_RUNS, RELATIONS, STRIPPED, Case
from lab.versions.measure import Result
from lab.versions.scores import Right, Scored, mean

HEADS = ("exact class", "within one", "page group", "group, or harmless")
GOALS = dict.fromkeys((OTHER_RUN, OTHER_RUNS, STRIPPED), 0.98)
OTHER_GOAL = 0.90
_PARTS = {
    "all": "All contexts",
    "unknown": "Contexts that neither table knows",
}


@dataclass
class Results:
    """Cases with their scores, and what could not be made."""

    facts: dict
    scored: list[tuple[Case, Result]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def means(self, part: str) -> Iterator[tuple[str, str, int, str, Scored]]:
        """(program, relation, cases, predictor, mean score) of one of _PARTS."""
        for program in dict.fromkeys(case.program for case, _ in self.scored):
            for relation in RELATIONS:
                found = [r[part] for r in self._of(program, relation) if part in r]
                for name in measure.PREDICTORS:
                    if rows := [one[name] for one in found if name in one]:
                        yield program, relation, len(rows), name, mean(rows)

    def verdicts(self) -> Iterator[str]:
        """Each goal in a line: the tables and the prior against it, mean and worst case."""
        for program, relation, _, name, score in self.means("all"):
            if name == measure.WITH_PRIOR:
                goal = GOALS.get(relation, OTHER_GOAL)
                found = [r["all"][name] for r in self._of(program, relation)]
                worst = min(one.weighted.group for one in found)
                fair = _percent(score.weighted.fair)
                word = "reached" if score.weighted.group >= goal else "MISSED"
                right = f"right page group {_percent(score.weighted.group)}"
                yield (f"{program}, {relation}: {right}, worst {_percent(worst)}, "
                       f"or harmless {fair}; goal {_percent(goal)} {word}")  # fmt: skip

    def _of(self, program: str, relation: str) -> list[Result]:
        asked = (program, relation)
        return [found for case, found in self.scored if (case.program, case.relation) == asked]

    def write(self, folder: Path) -> None:
        """results.json and table.md. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            {
                "learn": [str(run) for run in case.learn],
                "test": str(case.test),
                "relation": case.relation,
                "scores": {p: {n: s.to_json() for n, s in by.items()} for p, by in found.items()},
            }
            for case, found in self.scored
        ]
        text = json.dumps({"facts": self.facts, "missing": self.missing, "cases": rows}, indent=1)
        (folder / "results.json").write_text(text + "\n")
        (folder / "table.md").write_text(self.markdown())

    def markdown(self) -> str:
        """A table for each part of the contexts."""
        return "\n".join("\n".join([f"{title}:", "", *_table(self.means(part)), ""])
                         for part, title in _PARTS.items())  # fmt: skip


def _table(rows: Iterator[tuple[str, str, int, str, Scored]]) -> Iterator[str]:
    heads = [f"{head}, by {unit}" for unit in ("allocations", "contexts") for head in HEADS]
    yield f"| program | learned from | cases | contexts | predictor | known | {' | '.join(heads)} |"
    yield "|---" * (6 + len(heads)) + "|"
    for program, relation, count, name, score in rows:
        cells = [program, relation, count, score.contexts, name, _percent(score.weighted.known)]
        cells += [*_cells(score.weighted), *_cells(score.unweighted)]
        yield "| " + " | ".join(map(str, cells)) + " |"


def _cells(right: Right) -> list[str]:
    return [_percent(share) for share in (right.exact, right.near, right.group, right.fair)]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"

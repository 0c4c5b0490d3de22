# SPDX-License-Identifier: Apache-2.0
"""What came of a run, as JSON; two of them compared; all of them as a table."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from .suite import FAILED, PASSED, SKIPPED, Difference, Outcomes
from .variant import OURS, Variant


@dataclass(frozen=True)
class Record:
    """One suite under one variant. `programs`: processes seen with and without the allocator."""

    suite: str
    version: str
    what: str
    allocator: str
    conf: str
    seconds: int
    tests: Outcomes
    programs: dict[str, list[int]] = field(default_factory=dict)

    @property
    def variant(self) -> Variant:
        return Variant(self.allocator, self.conf)

    @property
    def counts(self) -> str:
        """Passed / failed / skipped."""
        count = Counter(self.tests.values())
        return " / ".join(f"{count[kind]:,}" for kind in (PASSED, FAILED, SKIPPED))

    def failed(self) -> set[str]:
        return {test for test, outcome in self.tests.items() if outcome == FAILED}

    def write(self, folder: Path) -> None:
        path = folder / f"{self.variant.file_name}.json"
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def read_all(out: Path) -> list[Record]:
    """Every record under `out`, sorted by suite, glibc first and llamalloc last."""
    records = [Record(**json.loads(path.read_text())) for path in out.glob("*/*.json")]
    order = {"glibc": 0, OURS: 2}
    return sorted(records, key=lambda r: (r.suite, order.get(r.allocator, 1), r.variant.name))


def reference(records: Sequence[Record], suite: str) -> Record | None:
    """The run of `suite` under glibc."""
    return next((r for r in records if (r.suite, r.allocator) == (suite, "glibc")), None)


@dataclass(frozen=True)
class Verdict:
    """The failures of a run, sorted by whose they are; each test is in one of the three."""

    unexpected: list[str]
    expected: dict[str, str]  # test -> reason
    with_glibc: list[str]  # fails with glibc as well


def judge(run: Record, glibc: Record | None, differences: Sequence[Difference]) -> Verdict:
    """Without a run under glibc, every failure that no difference names is unexpected.

    A test that passed under glibc and is not in `run` counts as failed: the run ended before it.
    """
    other = glibc.tests if glibc else {}
    bad = run.failed() | {t for t in other if other[t] == PASSED and t not in run.tests}
    with_glibc = {test for test in bad if other.get(test) == FAILED}
    expected = {t: r for t in bad - with_glibc if (r := _reason(t, run.conf, differences))}
    unexpected = bad - with_glibc - expected.keys()
    return Verdict(sorted(unexpected), dict(sorted(expected.items())), sorted(with_glibc))


def _reason(test: str, conf: str, differences: Sequence[Difference]) -> str:
    for difference in differences:
        if difference.conf in conf and any(fnmatchcase(test, p) for p in difference.tests):
            return difference.reason
    return ""


def remarks(verdict: Verdict) -> str:
    """The cell of a table."""
    parts = [
        f"{len(verdict.unexpected)} unexpected" if verdict.unexpected else "",
        f"{len(verdict.expected)} expected" if verdict.expected else "",
        f"{len(verdict.with_glibc)} fail with glibc as well" if verdict.with_glibc else "",
    ]
    return "; ".join(filter(None, parts)) or "no difference"


def table(records: Sequence[Record], differences: dict[str, Sequence[Difference]]) -> str:
    """Markdown: one row for each run that is not glibc's, beside the one under glibc."""
    lines = [
        "Counts are passed / failed / skipped.",
        "",
        "| suite | version | what ran | glibc | under | passed / failed / skipped | failures |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in records:
        if run.allocator == "glibc":
            continue
        glibc = reference(records, run.suite)
        verdict = judge(run, glibc, differences.get(run.suite, ()))
        cells = [run.suite, run.version, run.what, glibc.counts if glibc else "-"]
        cells += [run.variant.name, run.counts, remarks(verdict)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"

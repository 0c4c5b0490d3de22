# SPDX-License-Identifier: Apache-2.0
"""What was measured, as a table in Markdown and as JSON, and what is not as it should be."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.live.harm import KINDS, Harm
from lab.live.prometheus import Scraped
from lab.live.redis_rate import MANY, Rates
from lab.live.scrapes import Cost

FORMAT = 2
MOST_MS = 1.0  # of a core, for a scrape
MOST_CORE = 0.001  # of a core, for a scrape a second beside a loaded server


@dataclass
class Results:
    """A part that was not run is None."""

    machine: dict[str, str]
    harm: Harm | None = None
    pages: int = 0
    costs: list[Cost] = field(default_factory=list)
    rates: Rates | None = None
    scraped: Scraped | None = None

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        path.write_text(json.dumps(document, indent=1) + "\n")

    def faults(self) -> list[str]:
        """Of what does not depend on a quiet machine."""
        found = [
            f"a scrape of /metrics takes {cost.least:.2f} ms of a core"
            for cost in self.costs
            if cost.page == "/metrics" and cost.least > MOST_MS
        ]
        if self.rates and self.rates.core > MOST_CORE:
            found.append(f"a scrape a second takes {100 * self.rates.core:.3f} % of a core")
        if (s := self.scraped) is None:
            return found
        if s.failed or s.scrapes < s.seconds / 2:
            found.append(f"{s.failed} of {s.scrapes} scrapes failed in {s.seconds:.0f} s")
        found += [f"the metric llamalloc_{name} is missing" for name in s.missing]
        found += [f"promtool: {s.promtool}"] if s.promtool else []
        return found + [f"pprof {p.path}: {p.fault}" for p in s.profiles if p.fault]

    def table(self) -> str:
        return "\n".join(line for part in (_harm, _costs, _rates, _scraped) for line in part(self))


def _harm(results: Results) -> Iterator[str]:
    if (harm := results.harm) is None:
        return
    yield f"\n| {harm.clients} harmful clients | p50 | p99.9 | longest, median of the rounds |"
    yield "|---|---:|---:|---:|"
    titles = {"none": "none", "elsewhere": "at another process", "here": "at this process"}
    for kind in KINDS:
        p50, p999, longest = (harm.median(kind, v) for v in ("p50", "p999", "longest"))
        yield f"| {titles[kind]} | {p50:.0f} ns | {p999:.0f} ns | {longest / 1e6:.2f} ms |"


def _costs(results: Results) -> Iterator[str]:
    if not results.costs:
        return
    yield f"\n| page, {results.pages:,} huge pages in use | CPU time | of all threads | size |"
    yield "|---|---:|---:|---:|"
    for cost in results.costs:
        times = f"{cost.ms:.2f} ms | {cost.whole:.2f} ms"
        yield f"| `{cost.page}` | {times} | {cost.size / 1024:,.0f} KiB |"


def _rates(results: Results) -> Iterator[str]:
    if (rates := results.rates) is None:
        return
    yield "\n| Redis, SET and GET; medians | requests/s | main thread, a request |"
    yield "|---|---:|---:|"
    titles = {
        "without": "not scraped", "once": "a scrape a second", "many": f"{MANY} scrapes a second",
        "elsewhere": f"{MANY} scrapes a second of another process",
    }  # fmt: skip
    for kind, title in titles.items():
        rate, cpu = (rates.median(kind, value) for value in ("rate", "cpu"))
        yield f"| {title} | {rate:,.0f} | {cpu:.2f} µs |"
    once = [rates.change("once", "without", value) for value in ("rate", "cpu")]
    yield f"| a scrape a second, change | {100 * once[0]:+.2f} % | {100 * once[1]:+.2f} % |"
    one = [rates.of_one(value) for value in ("rate", "cpu")]
    yield f"| the same, by {MANY} a second | {100 * one[0]:+.3f} % | {100 * one[1]:+.3f} % |"
    yield f"| from least to most, not scraped | {100 * rates.spread():.1f} % | |"
    yield f"| CPU time of a scrape a second | {100 * rates.core:.3f} % of a core | |"


def _scraped(results: Results) -> Iterator[str]:
    if (s := results.scraped) is None:
        return
    yield "\n| Prometheus and a loaded Redis | |"
    yield "|---|---:|"
    yield f"| scrapes in {s.seconds:.0f} s | {s.scrapes} |"
    yield f"| failed | {s.failed} |"
    yield f"| metrics a scrape | {s.series} |"
    yield f"| time a scrape, average and longest | {s.average_ms:.1f} ms, {s.longest_ms:.1f} ms |"
    yield f"| promtool check metrics | {s.promtool or 'accepted'} |"
    yield f"| charge of the control group | {'there' if s.charge else 'not told by this system'} |"
    for p in s.profiles:
        yield f"| `go tool pprof -top /debug/pprof/{p.path}` | {p.fault or p.top} |"
    if not s.profiles:
        yield "| profiles | not opened: Go is missing |"

# SPDX-License-Identifier: Apache-2.0
"""The demo's report: report.html, one file with its pictures inside, and memory.png beside it."""

from __future__ import annotations

from pathlib import Path

from lab.demo import pictures
from lab.demo.allocators import ROWS
from lab.demo.plan import RECORD_INTERVAL
from lab.demo.results import LIVE_MEANS, Figures, Results
from lab.demo.table import ratio
from llamalloc.formats import profile
from llamalloc.formats.units import bytes_text
from llamalloc.reporting import html, profile_summary, stats_summary
from llamalloc.reporting.page import Page
from llamalloc.running.memory_group import WITHOUT

_CHARGE = (
    "Charge: what the kernel charges to the server's control group, page cache left out. It is "
    "what somebody pays for: the free part of a huge page leaves RSS at once, but stays charged "
    "until the kernel splits the page"
)
_PREDICTORS = {"model": "the model", "exact context": "context table", "site": "site table"}

_SCORES = (
    ("allocations", "weighted"),
    ("contexts", "unweighted"),
    ("off by one", "off_by_one"),
    ("page group", "page_group"),
    ("known", "coverage"),
)


def write(results: Results, out: Path) -> None:
    """Writes both files into `out`."""
    (out / "memory.png").write_bytes(pictures.overview(results))
    page = Page("Redis on a heap that knows lifetimes")
    _summary(page, results)
    _over_time(page, results)
    _speed(page, results)
    if results.training and (out / "redis.pb.gz").exists():
        html.add_lifetimes(page, profile_summary.summarise(profile.read(out / "redis.pb.gz")))
        _accuracy(page, results.training)
    _learned(page, results)
    _pinned(page, results)
    _how(page, results)
    (out / "report.html").write_text(page.render())


def _summary(page: Page, results: Results) -> None:
    rows = results.rows()
    if opening := _opening(rows):
        page.paragraph(opening)
    page.picture(pictures.after_the_drop(results), "memory over live, and huge page coverage")
    page.table(
        (
            "allocator",
            "charge",
            "charge / live",
            "average charge",
            "average / live",
            "peak charge",
            "most live",
            "peak / most live",
            "RSS",
            "RSS / live",
            "average RSS",
            "peak RSS",
            "on huge pages",
            "of anonymous",
            "requests/s",
            "of shipped",
        ),
        [_cells(row, rows) for row in rows],
        caption=f"{results.workload.settle:.0f} s after the last connection closed. {LIVE_MEANS} "
        f"{_CHARGE if results.is_charged() else WITHOUT}. "
        "Average / live: both over time. Most live: Redis's own used_memory_peak, which depends "
        "on how far replies pile up, and with it the peak. On huge pages: of all resident memory, "
        "the program's and its libraries' files among it, which the system keeps on small pages; "
        "and of anonymous memory alone.",
        marked=[i for i, row in enumerate(rows) if row.allocator == "learned"],
    )


def _opening(rows: list[Figures]) -> str:
    by_name = {row.allocator: row for row in rows}
    if not {"learned", "jemalloc"} <= by_name.keys():
        return ""
    ours, shipped = by_name["learned"], by_name["jemalloc"]
    what = "resident" if ours.charge_ratio is None else "charged"
    return (
        f"The same redis-server binary under the same load. After it, with a model, "
        f"{ours.charge_ratio or ours.ratio:.2f} bytes are {what} for each live byte, and "
        f"{ours.coverage:.0%} of resident memory is on huge pages; as shipped it is "
        f"{shipped.charge_ratio or shipped.ratio:.2f} bytes, and {shipped.coverage:.0%}. "
        f"It answered {ours.requests_per_second / shipped.requests_per_second:.0%} of the "
        f"requests per second."
    )


def _cells(row: Figures, rows: list[Figures]) -> tuple[str, ...]:
    shipped = next((r.requests_per_second for r in rows if r.allocator == "jemalloc"), None)
    return (
        row.title,
        *(_bytes(row.charge), ratio(row.charge_ratio), _bytes(row.average_charge)),
        ratio(row.average_over_live),
        *(_bytes(row.peak_charge), _bytes(row.peak_live), ratio(row.peak_over_live)),
        *(bytes_text(row.rss), ratio(row.ratio)),
        *(bytes_text(row.average_rss), bytes_text(row.peak_rss)),
        *(f"{row.coverage:.0%}", f"{row.anonymous_coverage:.0%}"),
        f"{row.requests_per_second:,.0f}",
        f"{row.requests_per_second / shipped:.0%}" if shipped else "-",
    )


def _bytes(value: float | None) -> str:
    return "-" if value is None else bytes_text(value)


def _over_time(page: Page, results: Results) -> None:
    page.heading("Memory over time")
    page.picture(pictures.overview(results), "memory over time, all allocators")
    page.picture(
        pictures.memory_over_time(results),
        "memory over time, one panel each",
        "Grey: resident. Green: the part of it on huge pages. Red: what the kernel charges to its "
        "control group. Dashed: what Redis itself holds. "
        "Dotted: the load ends.",
    )


def _speed(page: Page, results: Results) -> None:
    rows = results.rows()
    tests = list(rows[0].by_test)
    page.heading("Requests per second")
    page.table(
        ("allocator", *tests, "all"),
        [
            (r.title, *(f"{r.by_test[t]:,.0f}" for t in tests), f"{r.requests_per_second:,.0f}")
            for r in rows
        ],
        caption="The last column divides all requests by all their time.",
        marked=[i for i, row in enumerate(rows) if row.allocator == "learned"],
    )
    if sampling := sampling_text(results):
        page.paragraph(sampling, "soft")


def sampling_text(results: Results) -> str:
    """What recording costs, in words; empty if the runs for it are not there."""
    rates = results.sampling()
    if rates is None:
        return ""
    off, on = rates
    return (
        f"The sampler (a sample every {RECORD_INTERVAL} on average): {off:,.0f} requests/s while "
        f"it is off, {on:,.0f} while it is on ({on / off - 1:+.1%})."
    )


def _accuracy(page: Page, training: dict) -> None:
    page.heading("How right the model is")
    parts = (("learned", "the run it learned from"), ("measured", "another run"))
    page.table(
        ("measured on", "predictor", *(head for head, _ in _SCORES)),
        [
            (title, _PREDICTORS[name], *(f"{score[key]:.1%}" for _, key in _SCORES))
            for part, title in parts
            for name, score in training["scores"].get(part, {}).items()
            if score
        ],
        caption="Known: the share of allocations for which the predictor had an answer at all; "
        "the model always has one. Page group: right about the kind of page, which is what counts.",
    )
    model = training["model"]
    page.paragraph(
        f"{training['dataset']['learned']['contexts']:,} contexts, a vocabulary of "
        f"{model['vocabulary']:,} words, a model of {bytes_text(model['bytes'])}, learned in "
        f"{training['seconds']:.0f} seconds.",
        "soft",
    )


def _learned(page: Page, results: Results) -> None:
    rows = {row.name for row in ROWS if row.learns}
    runs = [run for run in results.runs if run.allocator in rows and run.statistics]
    if not runs:
        return
    page.heading("What llamalloc learned by itself")
    for run in runs:
        summary = stats_summary.summarise(run.statistics or {}, run.title)
        page.paragraph(f"{run.title}, {summary.seconds:.0f} seconds after its start:", "soft")
        html.add_learning(page, summary)


def _pinned(page: Page, results: Results) -> None:
    run = results.one_run("learned") or results.one_run("plain")
    if run is None or run.statistics is None:
        return
    summary = stats_summary.summarise(run.statistics, run.title)
    page.heading("Where the remaining memory is")
    page.paragraph(
        f"{run.title}, {results.workload.settle:.0f} seconds after the load dropped.", "soft"
    )
    html.add_memory(page, summary)
    counters = summary.counters
    page.paragraph(
        f"Prediction: {counters['predict_hits']:,.0f} allocations placed from the cache, "
        f"{counters['predict_misses']:,.0f} contexts first seen, "
        f"{counters['predict_disagreements']:,.0f} of {counters['predict_rechecks']:,.0f} "
        f"re-evaluations differed, {counters['outlivers']:,.0f} sampled objects outlived their "
        f"class, {counters['demotions']:,.0f} contexts were moved to a longer one."
    )


def _how(page: Page, results: Results) -> None:
    page.heading("How this was measured")
    load = results.workload
    page.paragraph(
        f"redis-server as Debian ships it; redis-benchmark with {load.clients:,} connections, "
        f"{load.operations:,} operations a test, values of {load.value:,} bytes, tests "
        f"{load.tests}; no persistence; transparent huge pages {results.hugepages!r}. RSS is all "
        "resident memory of the process, its libraries included. The model learned from a "
        "recorded run other than the ones shown. The rows that learn by themselves have no model: "
        "the first run starts without any knowledge, the second with the state file of the first."
    )
    page.paragraph(f"Machine: {results.machine}.", "soft")

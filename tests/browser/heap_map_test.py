# SPDX-License-Identifier: Apache-2.0
"""The heap map of a process that runs, in a real browser."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import Browser, find
from http_test import Program

pytestmark = pytest.mark.skipif(not find(), reason="Chromium is missing: apt-get install chromium")
MIB = 1 << 20
GROUPS = '[["unknown", 0], ["transient", 2], ["brief", 20], ["session", 200], ["permanent", 0]]'


@pytest.fixture
def program() -> Iterator[Program]:
    started = Program("127.0.0.1:0", "sample_interval:64KiB")
    yield started
    started.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


def opened(browser: Browser, program: Program) -> None:
    browser.said.clear()
    browser.dark(False)
    browser.open(f"http://{program.address}/heap")
    browser.wait_for("document.querySelector('#keys')?.childElementCount > 0")


def cells(browser: Browser) -> int:
    """What the legend counts."""
    texts = browser.value("[...$('keys').children].filter(e => !e.className).map(e => e.innerText)")
    return sum(int(text.rpartition(":")[2].replace(",", "")) for text in texts)


def pages(program: Program) -> list[list[float]]:
    return json.loads(program.get("/heap.json"))["pages"]


def colours(browser: Browser) -> int:
    """How many colours the cells have."""
    return browser.value(
        "new Set(new Uint32Array($('map').getContext('2d').getImageData(0, 0, $('map').width,"
        " $('map').height).data.buffer)).size"
    )


def fill(browser: Browser, count: int) -> None:
    """Another state of a heap of so many pages, as if it had been asked for. From then on what the
    process answers is not kept."""
    browser.value(
        f"""{{ window.held ??= keep
        keep = () => {{}}
        const cells = new Float64Array({count} * FIELDS)
        for (let i = 0; i < {count}; ++i)
          cells.set([5e7 + i, i % 5, i % 4, 200, i * 131 % HUGE, i / 3, i % 50], i * FIELDS)
        held({{ pid: 1, command: 'x', gate: '', samples: 1, groups: {GROUPS}, empty: 0, direct: 0,
          allocated: {count} * MIB, left_out: 0, cells, when: new Date() }}) }}"""
    )


def test_it_shows_every_page_and_renews_itself(browser: Browser, program: Program):
    program.do("keep 2000 10000")
    opened(browser, program)
    browser.value("$('by').value = 1, $('by').onchange()")
    browser.wait_for(f"count(shown) == {len(pages(program))}")
    assert cells(browser) == len(pages(program)) >= 10
    program.do("keep 200000 300")
    more = len(pages(program))
    browser.wait_for(f"count(shown) >= {more}")
    assert more > 30 and cells(browser) >= more
    assert browser.said == []


@pytest.mark.parametrize("way", range(4))
def test_every_way_to_colour_counts_all_pages(browser: Browser, program: Program, way: int):
    opened(browser, program)
    fill(browser, 5200)
    browser.value(f"$('by').value = {way}, $('by').onchange()")
    assert cells(browser) == 5200
    assert colours(browser) >= 5


def test_a_click_shows_spans_and_call_sites(browser: Browser, program: Program):
    program.do("keep 2000 10000")
    opened(browser, program)
    box = browser.value("JSON.stringify($('map').getBoundingClientRect())")
    at = json.loads(box)
    browser.click(at["x"] + 40, at["y"] + 5)  # the second cell
    browser.wait_for("document.querySelectorAll('#page tr').length > 1")
    text = browser.value("$('page').innerText")
    number = browser.value("chosen")
    assert number == sorted(row[0] for row in pages(program))[1]
    assert hex(int(number) * 2 * MIB) in text
    look = json.loads(program.get(f"/heap.json?page={int(number)}"))
    assert f"{len(look['spans'])} spans" in text
    assert "2 KiB" in text and "keep " in text and "main" in text
    assert "Estimated from" in text and "sampled objects" in text
    browser.press("ArrowRight")
    browser.wait_for(f"chosen != {number}")
    assert browser.said == []


def test_the_sites_of_a_page_are_its_memory(program: Program):
    program.do("keep 2000 10000")
    look = json.loads(program.get(f"/heap.json?page={pages(program)[3][0]}"))
    spans = [dict(zip(("first", "blocks", "size", "used", "slots"), s, strict=False))
             for s in look["spans"]]  # fmt: skip
    assert look["allocated"] == sum(s["size"] * s["used"] for s in spans)
    assert 0 < look["known"] <= look["allocated"]
    assert sum(site["bytes"] for site in look["sites"]) == pytest.approx(look["known"], rel=0.01)
    best = look["sites"][0]
    assert best["frames"][0] == "_Z4keepm"
    assert best["bytes"] > look["allocated"] / 3


def test_time_is_played_back(browser: Browser, program: Program):
    opened(browser, program)
    first = browser.value("count(shown)")
    program.do("keep 200000 300")
    browser.wait_for(f"count(shown) > {first}")
    browser.value("$('at').value = 0, $('at').oninput()")
    assert browser.value("count(shown)") == first
    states = browser.value("kept.length")
    browser.wait_for(f"kept.length > {states}")
    assert browser.value("count(shown)") == first, "what is looked at stays"
    browser.value("$('live').click()")
    assert browser.value("count(shown)") > first
    assert browser.value("$('live').disabled")


def test_what_is_kept_is_bounded(browser: Browser, program: Program):
    opened(browser, program)
    for _ in range(80):
        fill(browser, 16384)
    kept = browser.value("kept.reduce((n, s) => n + count(s), 0)")
    assert 300_000 < kept <= 1_000_000
    assert browser.value("count(shown)") == 16384


def test_an_empty_heap_is_said(browser: Browser, program: Program):
    opened(browser, program)
    browser.value("kept = []; shown = null")
    fill(browser, 0)
    assert "No huge page holds objects" in browser.value("$('sums').innerText")


def test_light_and_dark(browser: Browser, program: Program, tmp_path: Path):
    opened(browser, program)
    fill(browser, 500)
    seen = []
    for dark in (False, True):
        browser.dark(dark)
        style = "getComputedStyle(document.body)"
        seen.append(browser.value(f"[{style}.color, {style}.backgroundColor]"))
        assert len(browser.picture(tmp_path / f"{dark}.png")) > 10_000
    assert seen[0][1] == "rgb(255, 255, 255)"
    assert len({seen[0][0], seen[0][1], seen[1][0], seen[1][1]}) == 4
    assert browser.said == []


def test_a_process_that_has_ended_is_said(browser: Browser, program: Program):
    opened(browser, program)
    program.close()
    browser.wait_for("$('sums').innerText.includes('no answer')")
    assert browser.value("count(shown)") >= 1


def test_a_wrapper_is_no_call_site(browser: Browser, program: Program):
    opened(browser, program)
    for frame in ("zmalloc_usable", "std::vector<>::push_back", "Arena::Allocate", "?libc.so+0x1"):
        assert browser.value(f"WRAPPER.test({json.dumps(frame)})"), frame
    for frame in ("keep", "_sdsnewlen", "storage::Table::insert"):
        assert not browser.value(f"WRAPPER.test({json.dumps(frame)})"), frame


def test_names_are_readable(browser: Browser, program: Program):
    opened(browser, program)
    for name, shown in {
        "malloc": "malloc",
        "_Z4keepm": "keep",
        "_ZN7storage5Table6insertERKSsm": "storage::Table::insert",
        "_ZNK7storage5TableC2Ev": "storage::Table::Table",
        "_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<>::push_back",
        "_ZN1a1bILb1ENS_1cEE1dIXadL_Z1eEEEEvv": "a::b<>::d<>",
        "?libc.so.6+0x271d0": "?libc.so.6+0x271d0",
        "_Z": "_Z",
    }.items():
        assert browser.value(f"readable({json.dumps(name)})") == shown

# SPDX-License-Identifier: Apache-2.0
"""Flame graphs, differences and the time line of `llamalloc report`."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support import profile_writer

from llamalloc.cli import call
from llamalloc.formats import profile
from llamalloc.formats.profile import Context, Moment, Profile
from llamalloc.reporting import call_tree, comparison, flame
from llamalloc.reporting.history import site_of, timeline
from llamalloc.reporting.page import Page

SECOND = 10**9


def context(frames: str, died: int = 0, lives: int = 0, **more) -> Context:
    """Objects of 10 bytes that died after 50 s, or have lived for a second."""
    return Context(
        tuple(frames.split()), 10, (died + lives) // 10, died + lives, died // 10, died,
        lives // 10, lives,
        lifetimes={142: 1} if died else {}, censored_ages={119: 1} if lives else {},
        **{"numbers": {"bytes": 10}, **more},
    )  # fmt: skip


def made(*contexts: Context, **more) -> Profile:
    fields = {
        "path": Path("p"), "program": "server", "exiting": False, "time_ns": 1,
        "duration_ns": 10 * SECOND, "sample_interval": 4096, "contexts": contexts,
    }  # fmt: skip
    return Profile(**fields | more)


ONE = made(context("malloc a main", 100, 20), context("malloc b main", 0, 300))
LATER = made(context("malloc a main", 100, 520), context("malloc c main", 40, 0))


def test_a_node_holds_what_is_below_it() -> None:
    views = call_tree.views_of(ONE)
    assert [v.label for v in views][:1] == ["live at the end"] and len(views) == 3
    name, values, children = call_tree.as_lists(call_tree.tree(ONE, views, {}), [0, 1, 2])
    assert (name, values) == ("server", [320, 100, 420])
    assert [child[0] for child in children] == ["main"]
    assert [(c[0], c[1]) for c in children[0][2]] == [("a", [20, 100, 120]), ("b", [300, 0, 300])]


def test_what_is_too_small_in_every_view_is_left_out() -> None:
    found = made(context("f main", 10**6, 0), context("g main", 10, 0))
    views = call_tree.views_of(found)
    lists = call_tree.as_lists(call_tree.tree(found, views, {}), [0, 1, 2])
    assert [child[0] for child in lists[2][0][2]] == ["f"]
    assert lists[1][2] == 10**6 + 10


def test_a_difference_has_before_after_and_a_width_for_both() -> None:
    views = [call_tree.LIVE, call_tree.ALLOCATED]
    root = call_tree.difference(ONE, LATER, views, {})
    _, values, (main,) = call_tree.as_lists(root, [2, 5])
    assert values == [320, 520, 820, 42, 66, 96]
    assert [c[0] for c in main[2]] == ["a", "b", "c"]
    assert main[2][0][1][:3] == [20, 520, 520] and main[2][1][1][:3] == [300, 0, 300]


def test_a_comparison_names_what_grew_and_what_shrank() -> None:
    found = comparison.compare(ONE, LATER)
    live = call_tree.LIVE.label
    assert found.totals[live] == (320, 520)
    assert [(r.frames[1], r.change(live)) for r in found.grown] == [("a", 500)]
    assert [(r.frames[1], r.change(live)) for r in found.shrunk] == [("b", -300)]


def test_builds_that_differ_are_matched_by_names_and_modules() -> None:
    before = made(context("?lib.so+0x10 main", 0, 10), build=1)
    after = made(context("?lib.so+0x20 main", 0, 30), build=2)
    apart = comparison.compare(before, replace(after, build=1))
    assert (len(apart.grown), len(apart.shrunk), apart.same_build) == (1, 1, True)
    matched = comparison.compare(before, after)
    assert [(r.frames, r.change(call_tree.LIVE.label)) for r in matched.grown] == [
        (("lib.so", "main"), 20)
    ]
    assert matched.shrunk == [] and not matched.same_build


def test_names_are_demangled_everywhere() -> None:
    found = made(context("_Znwm _ZN3foo3barEv main", 0, 10))
    readable = call_tree.readable_names([found])
    stack = call_tree.stack_of(found.contexts[0], readable)
    assert stack == ("operator new", "foo::bar", "main")
    assert site_of(stack) == "foo::bar < main"


def test_data_cannot_end_the_script() -> None:
    found = made(context("</script><b>&amp; main", 0, 10))
    views = call_tree.views_of(found)
    text = flame.graph_json(call_tree.tree(found, views, {}), views)
    assert "<" not in text and "&" not in text
    assert json.loads(text)["root"][2][0][2][0][0] == "</script><b>&amp;"


TIMED = made(
    context("malloc a main", 0, 20, live={0: 5, 2: 20}, numbers={"bytes": 10, "peak_bytes": 9}),
    context("malloc b main", 100, 0, live={1: 50}),
    peak=Moment(2 * SECOND, 90),
    timeline=(Moment(0, 6), Moment(2 * SECOND, 90), Moment(9 * SECOND, 20)),
)


def test_the_time_line_is_read_and_stacked(tmp_path: Path) -> None:
    read = profile.read(profile_writer.write(TIMED, tmp_path / "p.pb.gz"))
    assert (read.peak, read.timeline) == (TIMED.peak, TIMED.timeline)
    assert [c.live for c in read.contexts] == [{0: 5, 2: 20}, {1: 50}]
    assert [c.peak_bytes for c in read.contexts] == [9, 0]
    shown = timeline(read)
    assert shown.seconds == [0, 2, 9] and shown.total == [6, 90, 20]
    assert shown.sites == {"b < main": [0, 50, 0], "a < main": [5, 0, 20]}
    assert shown.other == [1, 40, 0]


@pytest.mark.parametrize("text", ["x", "5:1 4:1", "1", "-1:3", "1:2:3"])
def test_a_damaged_time_line_is_refused(tmp_path: Path, text: str) -> None:
    message = profile_writer.message_of(ONE)
    message.comment.append(len(message.string_table))
    message.string_table.append(f"llamalloc-timeline {text}".encode())
    path = profile_writer.write_message(message, tmp_path / "p.pb.gz")
    with pytest.raises(profile.ProfileError, match="damaged"):
        profile.read(path)


def test_older_profiles_have_no_time_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = profile_writer.write(ONE, tmp_path / "p.pb.gz")
    assert call(["report", str(path), "--html", str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text()
    assert "older version" in page and "live at the peak" not in page
    assert call(["report", str(path)]) == 0
    assert "at the peak" not in capsys.readouterr().out


def test_the_page_shows_peak_and_time_line(tmp_path: Path) -> None:
    path = profile_writer.write(TIMED, tmp_path / "p.pb.gz")
    assert call(["report", str(path), "--html", str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text()
    for words in ("Live memory along time", "What was alive at the peak", "live at the peak"):
        assert words in page
    assert page.count("data:image/png;base64,") == 2
    assert not re.search(r"(src|href)=(?!.data:)", page)


def test_two_profiles_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        str(profile_writer.write(p, tmp_path / f"{n}.pb.gz")) for n, p in enumerate((ONE, LATER))
    ]
    page = tmp_path / "out.html"
    assert call(["report", "--diff", *files, "--html", str(page)]) == 0
    assert "malloc &lt; c &lt; main" in page.read_text() and '"diff":true' in page.read_text()
    capsys.readouterr()
    assert call(["report", "--diff", *files]) == 0
    out = capsys.readouterr().out
    assert "+500 B" in out and "-300 B" in out and "In total" in out
    assert call(["report", "--diff", *files, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["grown"][0]["after"]["live at the end"] == 520
    assert call(["report", "--diff", files[0]]) == 2
    assert "BEFORE AFTER" in capsys.readouterr().err


def test_the_browser_draws_zooms_and_searches(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("needs chromium: apt-get install chromium")
    page = Page("test")
    views = call_tree.views_of(ONE)
    data = flame.graph_json(call_tree.tree(ONE, views, {}), views)
    page.flame_graph(data, [view.label for view in views], "test")
    acts = """<script>
      const boxes = () => [...document.querySelectorAll(".graph div")];
      const box = name => boxes().find(b => b.node[0] === name);
      const seen = [boxes().map(b => b.node[0] + ":" + b.style.width).join()];
      box("b").click();
      seen.push(box("b").style.width, String(box("a") === undefined));
      document.querySelector("button.all").click();
      const field = document.querySelector(".flame input");
      field.value = "B"; field.dispatchEvent(new Event("input"));
      seen.push(document.querySelector(".found").textContent);
      document.querySelectorAll("button[data-view]")[2].click();
      seen.push(document.querySelector(".told").textContent);
      document.title = seen.join(" | ");
    </script></body>"""
    (tmp_path / "page.html").write_text(page.render().replace("</body>", acts))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run(
        [browser, *flags, "--dump-dom", f"file://{tmp_path}/page.html"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", done.stdout)[1].split(" | ")
    assert "server:100%" in title[0] and "b:93.75%" in title[0]
    assert title[1:] == ["100%", "true", "93.8 % found", "server: 420 B (100.00 %)"]

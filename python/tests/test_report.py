# SPDX-License-Identifier: Apache-2.0
"""`llamalloc report` on the golden profile and on statistics that one can sum by hand."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.statistics import document

from llamalloc.cli import call
from llamalloc.formats import contracts, profile
from llamalloc.reporting import profile_summary, stats_summary
from llamalloc.reporting.frames import demangled, shortened

GOLDEN = Path(str(contracts.folder())) / "golden" / "profile_v1.pb.gz"


@pytest.fixture
def stats_file(tmp_path: Path) -> Path:
    (tmp_path / "s.json").write_text(json.dumps(document()))
    return tmp_path / "s.json"


def test_the_golden_profile_is_summed_up() -> None:
    summary = profile_summary.summarise(profile.read(GOLDEN))
    assert (summary.sampled, summary.contexts, summary.exiting) == (1259, 3, True)
    assert summary.allocated_bytes == 6297600 + 10485760 + 589824
    assert [row.size for row in summary.top] == [32, 1024, 65536]
    assert [row.alive_bytes for row in summary.survivors] == [10485760, 5120]
    by_name = {row.name: row for row in summary.lifetimes}
    assert by_name["alive"].objects == 327685
    assert by_name["le_10ms"].objects == pytest.approx(6145 + 1)
    assert by_name["le_100s"].objects == pytest.approx(8)
    assert sum(row.object_share for row in summary.lifetimes) == pytest.approx(1)
    assert sum(row.byte_share for row in summary.lifetimes) == pytest.approx(1)
    assert sum(share for _, share in summary.buckets) == pytest.approx(6154 / (6154 + 327685))
    assert summary.top[1].median_lifetime == pytest.approx(2 ** (64.5 / 4))
    assert summary.top[0].median_lifetime is None


def test_statistics_are_summed_up() -> None:
    summary = stats_summary.summarise(document(), "s.json")
    assert [(g.name, g.pages, g.pinned) for g in summary.groups] == [
        ("permanent", 1, 0),
        ("transient", 2, 2),
    ]
    pins = [(p.group, p.size, p.objects, p.pages) for p in summary.pins]
    assert pins == [("transient", 64, 4, 2), ("transient", 1024, 1, 1)]
    assert summary.occupancy["transient"] == [192 / (2 << 20), 1088 / (2 << 20)]


def test_the_text_shows_both(stats_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", str(GOLDEN), str(stats_file)]) == 0
    text = capsys.readouterr().out
    for words in ("How long objects lived", "still alive at the end", "Where the memory is"):
        assert words in text
    assert "64 B in transient" in text and "Huge pages were" not in text
    assert "freed while it ended counts as alive" in text


def test_missing_huge_pages_are_told_once(
    stats_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats_file.write_text(json.dumps(document("never")))
    assert call(["report", str(stats_file)]) == 0
    assert capsys.readouterr().out.count("Huge pages were never") == 1


LEARNS = {
    "learning": "on: /var/lib/llamalloc/redis-server.learned",
    "segregation": "placement by lifetime is on: troughs pin 4 % of the peak, 18 % without it; it "
    "saves 90 MiB",
}


def test_what_was_learned_and_decided_is_told(
    stats_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = (
        "Learning is on: /var/lib/llamalloc/redis-server.learned.",
        "Placement by lifetime is on: troughs pin 4 % of the peak, 18 % without it; it saves "
        "90 MiB.",
    )
    stats_file.write_text(json.dumps(document() | LEARNS))
    assert call(["report", str(stats_file)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert call(["report", str(stats_file), "--html", str(tmp_path / "out.html")]) == 0
    page = (tmp_path / "out.html").read_text()
    assert all(sentence in text and sentence in page for sentence in sentences)


def test_without_learning_nothing_is_told_of_it(stats_file: Path) -> None:
    for more in ({}, {"learning": "off", "segregation": ""}):
        summary = stats_summary.summarise(document() | more, "s.json")
        assert (summary.learning, summary.segregation) == ("", "")


def test_json_is_for_scripts(stats_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", "--json", str(stats_file), str(GOLDEN)]) == 0
    stats, lives = json.loads(capsys.readouterr().out)
    assert stats["counters"]["predict_hits"] == 1000
    assert lives["contexts"] == 3


def test_a_page_appears_whole_or_not_at_all(stats_file: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    page = tmp_path / "out.html"
    page.write_text("an earlier page")
    words = [sys.executable, "-m", "llamalloc.cli", "report", stats_file, "--html", page]
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 4; exec "$@"', "-", *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, f"llamalloc: {page}: File too large\n")
    assert page.read_text() == "an earlier page"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out.html", "s.json"]


def test_the_page_stands_alone(stats_file: Path, tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    assert call(["report", str(GOLDEN), str(stats_file), "--html", str(page)]) == 0
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 2
    assert "http" not in text and not re.search(r"(src|href)=(?!.data:)", text)
    assert "std::vector&lt;int" in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"", "empty"),
        (b"hello", "not a pprof profile"),
        (b"{", "not JSON"),
        (b'{"version": 2}', "version 1"),
        (b"{}", "--stats"),
    ],
)
def test_bad_files_get_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, words: str
) -> None:
    path = tmp_path / "f"
    if content is not None:
        path.write_bytes(content)
    assert call(["report", str(path)]) == 1
    err = capsys.readouterr().err
    assert words in err and str(path) in err and err.count("\n") == 1


def _members(value, path=()):
    """The paths of all members, however deep; of a list, those of its first item."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1])
    for key, member in inner:
        yield (*path, key)
        if isinstance(member, (dict, list)):
            yield from _members(member, (*path, key))


@pytest.mark.parametrize(
    "wrong", [None, "x", [], {}, [1], {"x": []}, float("nan"), 10**400], ids=lambda w: repr(w)[:9]
)
def test_statistics_of_any_other_shape_get_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wrong: object
) -> None:
    path = tmp_path / "s.json"
    whole = document() | {"learning": "on", "peak": {"seconds": 1.5, "stats": {"backed": 1}}}
    for *outer, last in _members(whole):
        damaged = json.loads(json.dumps(whole))
        place = damaged
        for key in outer:
            place = place[key]
        place[last] = wrong
        path.write_text(json.dumps(damaged))
        code = call(["report", str(path)])
        err = capsys.readouterr().err
        assert (code, err.count("\n")) in {(0, 0), (1, 1)}, (outer, last, err)
        assert code == 0 or err.startswith(f"llamalloc: {path}: "), err


@pytest.mark.parametrize(
    ("verb", "of_folder"), [("report", "is a folder; name a file"), ("train", "Is a directory")]
)
def test_what_is_no_ordinary_file_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, of_folder: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    output = ["-o", str(tmp_path / "m")] if verb == "train" else []
    for path, said in ((tmp_path / "pipe", "not a regular file"), (tmp_path, of_folder)):
        assert call([verb, str(path), *output]) != 0
        err = capsys.readouterr().err.splitlines()[-1]
        assert said in err and str(path) in err


def test_frames_are_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert demangled(["_Znwm", "main"]) == {"_Znwm": "operator new"}
    monkeypatch.setenv("PATH", "/nowhere")
    assert demangled(["_ZN3foo3barEi", "main"]) == {"_ZN3foo3barEi": "foo::bar(int)"}
    frames = ("a", "?lib.so+0x10", "c", "d", "e", "f")
    assert shortened(frames, {"a": "A"}) == "A < lib.so+0x10 < c < d < e < ..."
    assert shortened((), {}) == "(no stack)"

# SPDX-License-Identifier: Apache-2.0
"""lab.paper: results to a page, without measuring anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab import allocators, peers
from lab.allocators import Allocator
from lab.paper import builds, ideal, lifetimes, main, memory, mesh, sampling, speed
from lab.paper.context import Context, PaperError
from lab.workloads.runner import Outcome

MIB = 1 << 20
PNG = b"\x89PNG"
MACHINE = {"cpu": "2 cores", "kernel": "6.1", "time": "noon"}


def _run(steady: float) -> dict:
    return {
        **{"steady": steady * MIB, "average": 2 * steady * MIB, "peak": 3 * steady * MIB},
        **{"seconds": 4.0, "cpu": 2.5, "series": [[0, MIB], [1, 2 * MIB]], "is_charge": True},
    }


def _score(share: float) -> dict:
    return {"weighted": share, "unweighted": share, "off_by_one": share, "page_group": share}


def _right(known: float, group: float) -> dict:
    return {"unweighted": {"known": known}, "weighted": {"group": group}}


MEMORY = {
    "runs": {"redis": {"tcmalloc": [_run(200)], "blind": [_run(150)], "profile": [_run(125)],
                       "process": [_run(120)]}},
    "live": {"redis": {"steady": 100 * MIB, "average": 110 * MIB, "peak": 150 * MIB}},
    "accuracy": {"redis": _score(0.98)},
    "missing": ["jemalloc is not installed"],
}  # fmt: skip
RESULTS = {
    lifetimes.EXHIBIT: {"every": [0] * 20 + [50, 0] + [0] * 10 + [25], "never": 25, "samples": 10,
                        "sampled": [[1e6, 0.5], [2e9, 0.25]], "alive": 0.25},
    builds.EXHIBIT: {
        "missing": [],
        "cases": [{"relation": "another version", "scores": {"all": {
            "name table": _right(0.25, 0.5), "network": _right(1, 0.75)}}}],
    },
    memory.EXHIBIT: MEMORY,
    ideal.EXHIBIT: {
        name: [{"average": 1.05, "peak": 1.1, "series": [[0, MIB, 2 * MIB], [1, MIB, MIB]]}] * 3
        for name in ideal.PROGRAMS
    },
    sampling.EXHIBIT: {"accuracy": {"4MiB": {"model": _score(0.8)}},
                       "cpu": {"off": [10.0], "4MiB": [10.5]}},
    speed.EXHIBIT: {"speed": {"a pair": {"llamalloc": 5.0}}, "missing": [],
                    "inference": [[20, 0.5]]},
    mesh.EXHIBIT: {"one wrapper": {"blind": [1030.0, 1040.0, 1050.0], "second": [9.0, 8.0, 12.0]}},
}  # fmt: skip


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for one, results in RESULTS.items():
        how = {"scale": 1.0, "rounds": 1, "mesh": None}
        document = {"machine": MACHINE, "how": how, "results": results}
        (tmp_path / f"{one.name}.json").write_text(json.dumps(document))
    return tmp_path


def test_all_that_was_measured_is_on_the_page(out: Path) -> None:
    page = out / "docs" / "paper.md"
    assert main.main(["--out", str(out), "--page", str(page)]) == 0
    text = page.read_text()
    for expected in (
        "| Redis | llamalloc, blind | 150 | 300 | 450 | 4.0 | 2.5 |",
        "| Redis | 73 % | 75 % | 80 % | 100 % / 94 % | 98 % / 98 % |",
        "Left out: jemalloc is not installed.",
        "| another version | 25 % | 50 % | 75 % |",
        "| 1 s | 8 % | 50 % | 50 % |",
        "| 4MiB | model | 80 % | 80 % | 80 % | +5.0 % |",
        "| one wrapper | 1,040 (1,050) | 9 (12) |",
        "Measured on: 2 cores, 6.1, noon.",
    ):
        assert expected in text, expected
    pictures = sorted(path.name for path in (page.parent / "img").iterdir())
    assert pictures == ["paper_ideal.png", "paper_lifetimes.png", "paper_memory.png"]
    for name in pictures:
        assert f"](img/{name})" in text
        assert (page.parent / "img" / name).read_bytes().startswith(PNG)


def test_what_is_measured_is_not_measured_again(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (out / "table3.json").unlink()
    asked = []

    def measure(self: Context, one: object) -> None:
        asked.append(one)

    monkeypatch.setattr(main, "_measure", measure)
    assert main.main(["--out", str(out)]) == 0
    assert asked == [memory.EXHIBIT]


def test_what_was_measured_at_another_scale_is(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(main, "_measure", lambda context, one: asked.append(one.name))
    words = ["--out", str(out), "--only", "table3,figure9"]
    assert main.main([*words, "--scale", "0.1"]) == 0
    assert asked == ["table3", "figure9"] or asked == ["figure9", "table3"]


def test_what_was_interrupted_is_made_again(tmp_path: Path) -> None:
    def run(self: Context, program: str, seed: int = 1, *, under: str) -> None:
        path = Path(under.split()[-1])
        path.write_text("whole" if is_whole else "the beginning")
        if not is_whole:
            raise KeyboardInterrupt

    context = Context(tmp_path, lambda text: None)
    object.__setattr__(context, "run", run.__get__(context))
    is_whole = False
    with pytest.raises(KeyboardInterrupt):
        context.trace("redis")
    is_whole = True
    assert context.trace("redis").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["redis.trace"]


def test_peers_keep_the_names_that_they_are_asked_for_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def present(names: list[str], library: Path, failed: dict[str, str]) -> tuple:
        assert failed == {"tcmalloc": "no compiler"}
        if names == ["tcmalloc"]:
            return [], ["tcmalloc is left out: x"]
        return [Allocator("jemalloc-5.3.0", "libjemalloc.so.2", "5.3.0", "")], []

    monkeypatch.setattr(peers, "ensure", lambda names, say: dict.fromkeys(names, "no compiler"))
    monkeypatch.setattr(allocators, "present", present)
    found, missing = Context(tmp_path, lambda text: None).present(memory.OTHERS)
    assert (list(found), missing) == (["jemalloc"], ["tcmalloc: x"])


def test_runs_that_are_compared_start_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each second run begins with what the first one left."""
    state = tmp_path / "redis.learned"
    state.write_text("first")
    for _ in range(2):
        conf = memory._how("process", state, tmp_path / "m")["conf"]
        again = Path(conf.removeprefix("learn:"))
        assert again != state and again.read_text() == "first"
        again.write_text("second")
    for row in memory.ROWS:
        assert "under" not in memory._how(row, state, tmp_path / "m")


def test_an_unknown_exhibit_names_those_that_there_are(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["--out", str(out), "--only", "figure99"])
    assert left.value.code == 2
    assert "figure99; there are figure2" in capsys.readouterr().err


def test_a_failing_exhibit_says_why_and_keeps_the_others(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "table3.json").unlink()

    def run(self: Context, program: str, seed: int = 1, **how: object) -> Outcome:
        return Outcome(program)

    monkeypatch.setattr(Context, "run", run)
    monkeypatch.setattr(Context, "present", lambda self, names: ({}, ["none"]))
    assert main.main(["--out", str(out), "--only", "table3"]) == 2
    assert "was not written" in capsys.readouterr().err
    assert (out / "figure9.json").exists() and not (out / "table3.json").exists()


def test_without_a_control_group_memory_is_rss() -> None:
    runs = {"redis": {"blind": [_run(150) | {"is_charge": False}]}}
    section = memory.show(MEMORY | {"runs": runs})
    assert "RSS (no control group could be made)" in section.paragraphs[0]


def test_a_trace_that_was_not_written_is_an_error(tmp_path: Path) -> None:
    def run(*_: object, **__: object) -> None:
        return None

    context = Context(tmp_path, lambda text: None)
    object.__setattr__(context, "run", run)
    with pytest.raises(PaperError, match="was not written"):
        context.trace("redis")

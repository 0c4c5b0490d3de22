# SPDX-License-Identifier: Apache-2.0
"""`llamalloc simulate` without the C++ tool: what is run, what fails how, what is shown."""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console
from support.simulated import result

from llamalloc.cli import call
from llamalloc.reporting import simulation_pictures, simulation_table
from llamalloc.running import simulation
from llamalloc.running.simulation import Agreement, Setting, SimulationError

PNG = b"\x89PNG\r\n"


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in beside a stand-in library; it prints the file `answer` and notes its arguments."""
    library = tmp_path / "libllamalloc.so"
    library.touch()
    monkeypatch.setenv("LLAMALLOC_LIBRARY", str(library))
    path = tmp_path / simulation.TOOL
    path.write_text(
        f'#!/bin/sh\necho "$*" >>{tmp_path}/calls\necho progress 0.250 >&2\n'
        f"[ -f {tmp_path}/answer ] && exec cat {tmp_path}/answer\n"
        "echo 'llamalloc-simulate: x.trace: event 3: damaged' >&2\nexit 1\n"
    )
    path.chmod(0o755)
    return path


def answer(tool: Path, found: dict) -> None:
    """What the stand-in prints from now on."""
    (tool.parent / "answer").write_text(json.dumps(found))


def shown(results: list[dict], width: int = 100) -> str:
    out = io.StringIO()
    simulation_table.print_runs(results, Console(file=out, width=width, highlight=False))
    return out.getvalue()


def test_a_trace_that_was_cut_off_is_told() -> None:
    found = result("llamalloc", "oracle")
    assert "cut off" not in shown([found])
    found["trace"]["ended_in_order"] = False
    assert "cut off: the last events may be missing" in " ".join(shown([found]).split())


def test_blind_policies_run_once_whatever_the_predictors() -> None:
    runs = simulation.plan(["llamalloc", "best-fit"], ["oracle", "site:0.99", "oracle"])
    assert runs == [("llamalloc", "oracle"), ("llamalloc", "site:0.99"), ("best-fit", "none")]


def test_policies_are_named_or_all() -> None:
    assert simulation.parse_policies("all") == list(simulation.POLICIES)
    assert simulation.parse_policies("paper-k2, llamalloc,paper-k2") == ["paper-k2", "llamalloc"]
    for text in ("worst-fit", "", ","):
        with pytest.raises(SimulationError, match="all"):
            simulation.parse_policies(text)


def test_the_tool_gets_what_was_asked_for(tool: Path) -> None:
    answer(tool, {"policy": "x"})
    setting = Setting("t.trace", learn="l.trace", error=0.25, error_by_object=True, samples=7)
    seen, heard = [], []
    runs = [("llamalloc", "exact"), ("best-fit", "none")]
    found = simulation.run_all(setting, runs, lambda *told: seen.append(told), heard.append)
    assert heard[0] == 0.25 and heard[-1] == 2
    assert found == [{"policy": "x"}] * 2
    assert [(done, total) for done, total, _ in seen] == [(1, 2), (2, 2)]
    calls = (tool.parent / "calls").read_text().splitlines()
    words = "t.trace --samples 7 --seed 1 --learn l.trace --error 0.25 --error-objects"
    assert sorted(calls) == [
        f"{words} --policy best-fit --predictor none --progress",
        f"{words} --policy llamalloc --predictor exact --progress",
    ]


def test_a_run_that_fails_says_why_in_one_line(
    tool: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["simulate", "x.trace"]) == 1
    assert capsys.readouterr().err == "llamalloc: x.trace: event 3: damaged\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policy", "worst-fit"], "slabs-lowest"),
        (["--predictor", ","], "oracle"),
        (["--error", "2"], "--error"),
        (["--error-of", "pages"], "contexts"),
    ],
)
def test_wrong_use_is_told(
    tool: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert call(["simulate", "t.trace", *words]) in (1, 2)
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_what_is_done_is_said_now_and_then(
    tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(tool, {"policy": "x"})
    command = sys.modules["llamalloc.cli.simulate"]  # the package has a function of that name
    monkeypatch.setattr(command, "_EVERY", 0.0)
    monkeypatch.setattr(command, "_print", lambda results, as_json: None)
    assert call(["simulate", "t.trace"]) == 0
    assert "llamalloc: simulating, 25%\n" in capsys.readouterr().err


def test_a_missing_tool_is_told(tool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool.unlink()
    assert call(["simulate", "t.trace"]) == 1
    assert "make build" in capsys.readouterr().err


def test_help_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["simulate", "--help"]) == 0
    assert "Examples:" in capsys.readouterr().out


def test_json_is_every_run(tool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(tool, result("llamalloc", "oracle"))
    assert call(["simulate", "t.trace", "--predictor", "oracle,none", "--json"]) == 0
    out = capsys.readouterr()
    assert [run["policy"] for run in json.loads(out.out)] == ["llamalloc"] * 2
    assert "(2 of 2)" in out.err


def test_the_table_has_a_row_a_run() -> None:
    text = shown([result("llamalloc", "oracle", error=0.01), result("best-fit", "none")])
    assert "700 events in 2 contexts over 3 s; at most 4 MiB live; 1 drop of the load" in text
    assert "llamalloc, oracle ±1.00%" in text
    first = next(line for line in text.splitlines() if line.startswith("best-fit"))
    assert first.split() == [
        "best-fit",
        "4.000",
        "1.001",
        "8.000",
        "8.000",
        "2.000",
        "100%",
        "4",
        "0.111%",
    ]
    last = next(line for line in reversed(text.splitlines()) if line.startswith("best-fit"))
    assert last.split() == ["best-fit", "0.0%", "0.0%", "300.0%", "0.0%", "0.0%", "0.0%", "100.0%"]


def test_without_a_drop_there_is_no_figure_for_it() -> None:
    text = shown([result("best-fit", "none", drop=False)])
    first = next(line for line in text.splitlines() if line.startswith("best-fit"))
    assert first.split()[3:5] == ["-", "-"]


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    text = shown([result("slabs-fullest", "none"), result("paper-k2", "site:0.9999")], width=80)
    assert "…" not in text


def test_every_picture_is_drawn(tmp_path: Path, tool: Path) -> None:
    results = [result("llamalloc", "oracle"), result("paper-k2", "model:a/b"), result("x", "none")]
    files = simulation_pictures.all_pictures(results)
    assert set(files) == {
        "memory.png",
        "lifetimes.png",
        "policies.png",
        "oracle.png",
        "map_llamalloc_oracle.png",
        "map_paper-k2_model_a_b.png",
        "map_x_none.png",
    }
    assert all(data.startswith(PNG) for data in files.values())
    answer(tool, results[0])
    assert call(["simulate", "t.trace", "--pictures", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / "memory.png").read_bytes().startswith(PNG)
    assert call(["simulate", "t.trace", "--pictures", str(tool)]) == 2


def test_agreement_is_within_two_percent() -> None:
    console = Console(file=io.StringIO())
    assert simulation_table.print_agreement(Agreement([101, 99], [100, 100]), console)
    assert not simulation_table.print_agreement(Agreement([103, 103], [100, 100]), console)
    # 1.0 on average, 1.04 at the peak
    assert not simulation_table.print_agreement(Agreement([96, 104], [100, 100]), console)
    assert Agreement([110, 50], [100, 100]).peak == pytest.approx(1.1)

# SPDX-License-Identifier: Apache-2.0
"""`llamalloc simulate` without the C++ tool: what is run, what fails how, what is shown."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from support.simulated import result

from llamalloc.cli import call
from llamalloc.formats import regular_file
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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policy", "paper-k2", "--predictor", "online"], "only for the policy llamalloc"),
        (["--predictor", "none,foo"], "no predictor 'foo'"),
        (["--predictor", "none,model:none.model"], "none.model: no such file"),
        (["--predictor", "none,state:none.learned"], "none.learned: no such file"),
        (["--predictor", "online,online:64KiB", "--keep", "k"], "the same file"),
        (["--predictor", "online", "--keep", "text"], "text: not a state file; it is left alone"),
        (["--predictor", "online", "--keep", "none/k"], "none is not a writable folder"),
        (["--predictor", "none", "--keep", "k"], "--keep needs"),
        (["--policy", "best-fit", "--conf", "segregate:always"], "only the policy llamalloc"),
        (["--pictures", "text"], "text is not a writable folder"),
        (["--check-against-replay", "--json"], "takes no other option"),
        (["--check-against-replay", "--pictures", "x"], "takes no other option"),
        (["--check-against-replay", "--predictor", "foo"], "takes no other option"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_simulated(
    tool: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tool.parent)
    Path("text").write_text("of somebody")
    tool.write_text(
        '#!/bin/sh\n[ "$1" ] && touch started\n'
        "case $* in *foo*) echo \"llamalloc-simulate: no predictor 'foo'\" >&2; exit 2;; esac\n"
        "exit 1\n"
    )
    assert call(["simulate", "t.trace", *words]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not Path("started").exists() and Path("text").read_text() == "of somebody"


def test_only_what_learns_is_kept_and_only_llamalloc_has_options(tool: Path) -> None:
    answer(tool, {})
    setting = Setting("t.trace", keep=str(tool.parent / "k"), conf="segregate:always")
    runs = [("llamalloc", "online"), ("llamalloc", "none"), ("paper-k2", "none")]
    simulation.check(setting, runs)
    (tool.parent / "calls").unlink()
    simulation.run_all(setting, runs)
    calls = (tool.parent / "calls").read_text().splitlines()
    assert [("--keep" in line, "--conf" in line) for line in sorted(calls, key=len)] == [
        (False, False),
        (False, True),
        (True, True),
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_runs_and_starts_nothing_else(tool: Path, number: int) -> None:
    started = tool.parent / "started"
    tool.write_text(f'#!/bin/sh\n[ "$1" ] || exit 1\necho $$ >>{started}\nexec sleep 60\n')
    words = ["simulate", "t.trace", "--predictor", "oracle,none,exact,site"]
    command = [sys.executable, "-m", "llamalloc.cli", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not started.exists() or started.read_text().count("\n") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        _, error = process.communicate(timeout=20)
    assert (process.returncode, error) == (128 + number, "")
    pids = started.read_text().split()
    assert len(pids) == 2 and not any(Path("/proc", pid).exists() for pid in pids)


def test_a_run_that_fails_ends_the_others(tool: Path) -> None:
    tool.write_text("#!/bin/sh\ncase $* in *exact*) exit 3;; esac\nexec sleep 60\n")
    began = time.monotonic()
    with pytest.raises(SimulationError, match="exit code 3"):
        simulation.run_all(Setting("t"), [("llamalloc", "none"), ("llamalloc", "exact")])
    assert time.monotonic() - began < 20


def test_pictures_that_cannot_be_written_cost_no_table(
    tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    answer(tool, result("llamalloc", "oracle"))
    monkeypatch.setattr(regular_file, "write", full)
    assert call(["simulate", "t.trace", "--pictures", str(tool.parent / "new")]) == 1
    told = capsys.readouterr()
    assert "llamalloc, oracle" in told.out and "No space left on device" in told.err


def test_a_name_may_hold_any_bytes(tool: Path) -> None:
    name = os.fsdecode(b"model:a\xff[/b].model")
    found = result("llamalloc", name)
    found["trace"]["file"] = "FILE"
    data = json.dumps(found, ensure_ascii=False).encode(errors="surrogateescape")
    (tool.parent / "answer").write_bytes(data.replace(b"FILE", b"bad\xff.trace"))
    command = [sys.executable, "-m", "llamalloc.cli", "simulate", b"bad\xff.trace"]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    words = [*command, "--pictures", str(tool.parent / "new")]
    done = subprocess.run(words, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert b"bad\xff.trace" in done.stdout and "a\ufffd[/b].model".encode() in done.stdout
    (tool.parent / "answer").unlink()
    tool.write_bytes(b"#!/bin/sh\necho 'llamalloc-simulate: bad\xff.trace: damaged' >&2; exit 1\n")
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.returncode == 1 and done.stderr == b"llamalloc: bad\\udcff.trace: damaged\n"


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


def test_agreement_is_within_two_percent() -> None:
    console = Console(file=io.StringIO())
    assert simulation_table.print_agreement(Agreement([101, 99], [100, 100]), console)
    assert not simulation_table.print_agreement(Agreement([103, 103], [100, 100]), console)
    # 1.0 on average, 1.04 at the peak
    assert not simulation_table.print_agreement(Agreement([96, 104], [100, 100]), console)
    assert Agreement([110, 50], [100, 100]).peak == pytest.approx(1.1)

# SPDX-License-Identifier: Apache-2.0
"""The command line: every wrong use is one line that names cause and cure, with exit code 2."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import compiled

from llamalloc.cli import call
from llamalloc.formats import places, units
from llamalloc.running import launch

GOLDEN_MODEL = Path(__file__).parents[2] / "contracts" / "golden" / "model_v3.safetensors"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A loadable library in the place of ours: the command must not care what is in it."""
    path = compiled(tmp_path / launch.LIBRARY, "int x;", "-shared", "-fPIC")
    monkeypatch.setenv("LLAMALLOC_LIBRARY", str(path))
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run"], "after --"),
        (["run", "--modell", "m"], "--modell"),
        (["run", "--", "surely-no-such-program"], "not found in PATH"),
        (["run", "--model", "/none.model", "--", "true"], "llamalloc train"),
        (["run", "--model", "/tmp", "--", "true"], "not a file; name the model itself"),
        (["run", "--conf", "retane:1", "--", "true"], "no option 'retane'"),
        (["run", "--stats", "/none/s.json", "--", "true"], "not a writable folder"),
        (["run", "--control", "/tmp/" + "x" * 120, "--", "true"], "107 bytes"),
        (["record", "--", "true"], "-o FILE is missing"),
        (["record", "-o", "/tmp/p.pb.gz"], "after --"),
        (["record", "-o", "/none/p.pb.gz", "--", "true"], "not a writable folder"),
        (["record", "-o", "/tmp/p.pb.gz", "--interval", "64K", "--", "true"], "64KiB"),
        (["record", "-o", "/tmp/p.pb.gz", "--control", "/tmp/none"], "--for"),
        (["record", "-o", "/tmp/p.pb.gz", "--interval", "0", "--", "true"], "at least 1 byte"),
        (["record", "-o", "/tmp/p.pb.gz", "--for", "25h", "--", "true"], "at most 24h"),
        (["run", "--stats", "/tmp", "--", "true"], "/tmp: is a folder; name a file in it"),
        (["run", "--control", "/tmp", "--", "true"], "/tmp: is a folder; name a file in it"),
        (["run", "--model", "/dev/null", "--", "true"], "not a file"),
        (["run", "--model", __file__, "--", "true"], "llamalloc train writes models"),
        (["trace", "--", "true"], "-o FILE is missing"),
        (["trace", "-o", "/tmp/t.trace"], "after --"),
        (["trace", "-o", "/none/t.trace", "--", "true"], "not a writable folder"),
        (["trace", "-o", "/tmp/t.trace", "--", "true"], "make build"),
        (["trace", "cut", "/tmp/t.trace"], "--output"),
        (["trace", "cut", "t", "-o", "/tmp/c", "--from", "9", "--to", "1"], "not before --to"),
        (["trace", "info"], "T.trace"),
        (["report"], "FILE"),
        (["recrod"], "recrod"),
    ],
)
def test_wrong_use_is_one_line(
    library: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert call(arguments) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1 and err.startswith("llamalloc: ")


@pytest.mark.parametrize(
    "words",
    [
        ("record", "-o", "PIPE", "--", "true"),
        ("trace", "-o", "PIPE", "--", "true"),
        ("trace", "cut", "t.trace", "-o", "PIPE"),
        ("trace", "export", "t.trace", "-o", "PIPE"),
        ("train", "-o", "PIPE", "p.pb.gz"),
    ],
    ids=lambda words: words[0] if words[0] != "trace" else f"trace {words[1]}",
)
def test_a_device_is_not_replaced(
    library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """As `-o /dev/null` by root would, for the whole system."""
    (pipe, link) = (tmp_path / "pipe", tmp_path / "link")
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        assert call([str(path) if word == "PIPE" else word for word in words]) in (1, 2)
        err = capsys.readouterr().err
        assert err == f"llamalloc: {path}: is a device or pipe; name an ordinary file\n"
    assert pipe.is_fifo()
    assert link.is_symlink()


@pytest.mark.parametrize("verb", ["record", "train", "run", "report", "doctor", "trace"])
def test_help_teaches_by_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([verb, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text and f"llamalloc {verb}" in text


def test_a_missing_library_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LLAMALLOC_LIBRARY", raising=False)
    monkeypatch.setattr(places, "LIBRARY_FOLDERS", (Path("/none"),))
    assert call(["run", "--", "true"]) == 2
    assert "make build" in capsys.readouterr().err


def test_run_becomes_the_program(library: Path, tmp_path: Path) -> None:
    shutil.copy(GOLDEN_MODEL, tmp_path / "m")
    script = 'echo "$$ $LD_PRELOAD $LLAMALLOC_CONF $1"; exit 5'
    words = ["--model", str(tmp_path / "m"), "--conf", "retain:1MiB", "--", "sh", "-c", script]
    process = subprocess.Popen(
        [sys.executable, "-m", "llamalloc.cli", "run", *words, "x", "--model"],
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 5
    assert out == f"{process.pid} {library} retain:1MiB,model:{tmp_path / 'm'} --model\n"


def test_record_says_when_nothing_was_recorded(
    library: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.pb.gz"
    profile.write_bytes(b"of an earlier run")
    assert call(["record", "-o", str(profile), "--", "true"]) == 1
    assert "nothing was recorded" in capfd.readouterr().err
    assert not profile.exists()
    assert call(["record", "-o", str(profile), "--", "sh", "-c", "exit 4"]) == 4
    assert call(["record", "-o", str(profile), "--", "sh", "-c", "kill -9 $$"]) == 137
    assert "signal 9" in capfd.readouterr().err


@pytest.mark.parametrize("data", [b"", b"text", GOLDEN_MODEL.read_bytes()[:-1]])
def test_a_model_that_cannot_be_read_is_told_before_the_start(
    library: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], data: bytes
) -> None:
    """The library would run the program without predictions."""
    (tmp_path / "m").write_bytes(data)
    assert call(["run", "--model", str(tmp_path / "m"), "--", "echo", "started"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith(f"llamalloc: {tmp_path / 'm'}: ") and err.count("\n") == 1


def test_a_home_that_cannot_be_written_to_is_no_matter_of_a_report(tmp_path: Path) -> None:
    profile = GOLDEN_MODEL.with_name("profile_v1.pb.gz")
    command = [sys.executable, "-m", "llamalloc.cli", "report", profile, "--html", tmp_path / "r"]
    homeless = os.environ | {"HOME": "/proc/none", "MPLCONFIGDIR": "/proc/none"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=homeless)
    assert (done.returncode, done.stderr) == (0, f"llamalloc: wrote {tmp_path / 'r'}\n")


@pytest.mark.parametrize("words", [("--version",), ("doctor", "--json"), ("trace", "--help")])
def test_an_output_that_is_full_is_one_line(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "llamalloc.cli", *words]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "llamalloc: standard output: No space left on device\n"


@pytest.mark.parametrize(("text", "value"), [("64KiB", 65536), ("4096", 4096), ("1 MiB", 1 << 20)])
def test_sizes(text: str, value: int) -> None:
    assert units.parse_bytes(text) == value
    assert units.bytes_text(1.5 * (1 << 20)) == "1.5 MiB"
    assert units.seconds_text(0.0123) == "12.3 ms"
    assert units.seconds_text(300) == "5 min"


def test_an_output_that_is_not_utf_8_loses_letters_but_no_command() -> None:
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    script = """
import sys
from llamalloc import cli
cli.call = lambda words: print("caf\\u00e9 \\u2026 \\udcff") or 0
cli.main()
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"caf? ? \xff\n", b"")

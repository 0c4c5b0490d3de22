# SPDX-License-Identifier: Apache-2.0
"""No output replaces an input, or a file of ours of another kind."""

import gzip
import shutil
from pathlib import Path

import pytest

from llamalloc.cli import call
from llamalloc.formats import file_kinds
from llamalloc.formats.file_kinds import MODEL, PROFILE, STATE, TRACE

GOLDEN = Path(__file__).resolve().parents[2] / "contracts" / "golden"
FILES = {
    "a.pb.gz": "profile_v1.pb.gz",
    "b.pb.gz": "profile_v1_cpp.pb.gz",
    "m.model": "model_v3.safetensors",
    "s.learned": "learned_v2.learned",
    "t.trace": "trace_v1.trace",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file of each kind."""
    monkeypatch.chdir(tmp_path)
    for name, golden in FILES.items():
        shutil.copy(GOLDEN / golden, tmp_path / name)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_kind_is_known(folder: Path) -> None:
    kinds = [file_kinds.kind_of(folder / name) for name in FILES]
    assert kinds == [PROFILE, PROFILE, MODEL, STATE, TRACE]
    foreign = (b"", b"text", b'{"rows": {}}', gzip.compress(b"text"), gzip.compress(b"\n")[:12])
    for data in foreign:
        (folder / "f").write_bytes(data)
        assert file_kinds.kind_of(folder / "f") is None
    assert file_kinds.kind_of(folder) is None and file_kinds.kind_of(folder / "none") is None


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("report --html a.pb.gz b.pb.gz", "a.pb.gz: is a profile, and would be lost"),
        ("report --html b.pb.gz b.pb.gz", "b.pb.gz: is an input"),
        ("report --html ./link b.pb.gz", "link: is an input"),
        ("report --diff --html a.pb.gz a.pb.gz b.pb.gz", "a.pb.gz: is an input"),
        ("report --html new.json new.json", "new.json: is an input"),
        ("train -o new --report new a.pb.gz", "new: is an input"),
        ("train -o new --report a.pb.gz a.pb.gz", "a.pb.gz: is an input"),
        ("train -o new --report b.pb.gz a.pb.gz", "b.pb.gz: is a profile"),
        ("trace export t.trace -o t.trace", "t.trace: is an input"),
        ("trace cut t.trace -o t.trace", "t.trace: is an input"),
        ("trace cut t.trace -o a.pb.gz", "a.pb.gz: is a profile"),
        ("trace -o m.model -- true", "m.model: is a model"),
        ("compare --load true -o a.pb.gz -- sleep", "a.pb.gz: is a profile"),
        ("record -o s.learned -- true", "s.learned: is a state file"),
        ("record -o new --stats new -- true", "new: is an input"),
        ("run --model m.model --stats m.model -- true", "m.model: is an input"),
        ("run --stats a.pb.gz -- true", "a.pb.gz: is a profile"),
    ],
)
def test_what_would_be_lost_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str, told: str
) -> None:
    Path("link").symlink_to("b.pb.gz")
    before = contents(folder)
    assert call(command.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"llamalloc: {told}") and error.count("\n") == 1
    assert contents(folder) == before


def test_a_file_of_the_same_kind_is_replaced(folder: Path) -> None:
    assert call(["trace", "cut", "t.trace", "-o", "new.trace", "--events", "3"]) == 0
    assert call(["trace", "cut", "t.trace", "-o", "new.trace", "--events", "2"]) == 0
    for _ in range(2):
        assert call(["report", "a.pb.gz", "--html", "page.html"]) == 0

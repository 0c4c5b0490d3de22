# SPDX-License-Identifier: Apache-2.0
"""State files: golden bytes both ways, round trip, refusals, `llamalloc report`."""

import json
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from support import golden_learned

from llamalloc.cli import call
from llamalloc.formats import contracts, learned_state
from llamalloc.formats.learned_state import Gate, GateVerdict, Node, StateError
from llamalloc.learning.evidence import verdict
from llamalloc.reporting.learned_summary import gate_text, summarise

# src/policy/learned_state_write_test.cc proves that C++ writes exactly these bytes.
GOLDEN = Path(str(contracts.folder())) / "golden" / "learned_v1.learned"
STATE = golden_learned.STATE


def sealed(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def with_bytes(at: int, part: bytes) -> bytes:
    data = GOLDEN.read_bytes()
    return sealed(data[:at] + part + data[at + len(part) :])


def test_the_golden_file_both_ways(tmp_path: Path) -> None:
    assert learned_state.read(GOLDEN) == STATE
    learned_state.write(STATE, tmp_path / "s.learned")
    assert (tmp_path / "s.learned").read_bytes() == GOLDEN.read_bytes()
    assert (tmp_path / "s.learned").stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "s.learned"]


def test_round_trip_of_the_largest(tmp_path: Path) -> None:
    nodes = tuple(Node(n, 64, 255, (65535,) * 7, (1,) * 7, 3) for n in range(26_212))
    state = replace(STATE, nodes=nodes, name="x" * 31, gate=Gate())
    learned_state.write(state, tmp_path / "s.learned")
    assert learned_state.read(tmp_path / "s.learned") == state
    assert (tmp_path / "s.learned").stat().st_size <= 1 << 20
    with pytest.raises(StateError, match="do not hold 26213 nodes"):
        learned_state.pack(replace(state, nodes=(*nodes, Node(26_212, 1, elders=1))))


def test_every_cut_and_every_flipped_bit_is_refused(tmp_path: Path) -> None:
    data, path = GOLDEN.read_bytes(), tmp_path / "s.learned"
    flips = (
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    )
    for damaged in [*(data[:length] for length in range(len(data))), *flips, data + b"x"]:
        path.write_bytes(damaged)
        with pytest.raises(StateError, match=r"s\.learned: "):
            learned_state.read(path)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "not a state file"),
        (b"llmlearn", "damaged, truncated"),
        (with_bytes(8, b"\x02"), "version 2, not 1"),
        (with_bytes(12, b"\xff\xff\xff\xff"), "do not hold 4294967295 nodes"),
        (with_bytes(24, b"a/b"), "header is not sane"),
        (with_bytes(24, b"\0"), "header is not sane"),
        (with_bytes(40, b"x"), "header is not sane"),
        (with_bytes(72, b"\x03"), "header is not sane"),
        (with_bytes(76, b"\x01"), "header is not sane"),
        (with_bytes(88, b"\x00"), "nodes are not sane"),
        (with_bytes(88, b"\x41"), "nodes are not sane"),
        (with_bytes(90, bytes(30)), "nodes are not sane"),
        (with_bytes(80, b"\xff" * 8), "nodes are not sane"),
    ],
)
def test_refusals(tmp_path: Path, data: bytes, cause: str) -> None:
    (tmp_path / "s.learned").write_bytes(data)
    with pytest.raises(StateError) as caught:
        learned_state.read(tmp_path / "s.learned")
    assert cause in str(caught.value)


def test_only_what_reads_back_is_written(tmp_path: Path) -> None:
    for wrong in (replace(STATE, name=""), replace(STATE, name="a b"), replace(STATE, runs=-1)):
        with pytest.raises(StateError, match="state of"):
            learned_state.write(wrong, tmp_path / "s.learned")
    assert list(tmp_path.iterdir()) == []


def test_golden_evidence() -> None:
    cases = json.loads(GOLDEN.with_name("evidence.json").read_text())["cases"]
    assert len(cases) == len(golden_learned.EVIDENCE)
    for case in cases:
        node = Node(1, 1, 0, tuple(case["deaths"]), tuple(case["young"]), case["elders"])
        assert (verdict(node) or "") == case["verdict"]


def test_a_state_is_summed_up() -> None:
    summary = summarise(STATE, "s.learned")
    assert (summary.program, summary.build) == ("redis-server", "cc927f6ee23a0f61")
    assert (summary.contexts, summary.undecided, summary.unseen) == (2, 0, 1)
    assert summary.samples == 708
    assert summary.decided == {"never": 1, "mixed": 1}


def test_the_gate_speaks_in_sentences() -> None:
    assert gate_text(STATE.gate) == (
        "Objects are placed by lifetime: footprint / live memory is 1.47 without, 1.12 with it."
    )
    assert gate_text(Gate()) == "Whether placing objects by lifetime pays is not known yet."
    assert "does not pay here" in gate_text(Gate(GateVerdict.OFF, blind_permille=1050))


def test_report_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", str(GOLDEN), "--html", str(tmp_path / "s.html")]) == 0
    assert "redis-server" in (tmp_path / "s.html").read_text()
    assert call(["report", str(GOLDEN)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "redis-server (build cc927f6ee23a0f61): 708 samples from 3 runs in 2 contexts" in text
    assert "Objects are placed by lifetime" in text and "not freed while the program ran" in text
    assert call(["report", "--json", str(GOLDEN)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["runs"] == 3


def test_report_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.learned").write_bytes(GOLDEN.read_bytes()[:-1])
    assert call(["report", str(tmp_path / "s.learned")]) == 2
    assert "s.learned: damaged, 163 bytes do not hold 2 nodes" in capsys.readouterr().err

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
from llamalloc.formats.learned_state import (
    NO_FIGURE,
    Gate,
    GateVerdict,
    GateWaste,
    Node,
    StateError,
)
from llamalloc.learning.evidence import verdict
from llamalloc.reporting.learned_summary import gate_text, summarise

# src/learning/learned_state_test.cc proves that C++ writes exactly these bytes.
GOLDEN = Path(str(contracts.folder())) / "golden" / "learned_v2.learned"
STATE = golden_learned.STATE
NODES_END = 104 + 3 * 56


def sealed(data: bytes) -> bytes:
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def with_bytes(at: int, part: bytes) -> bytes:
    data = GOLDEN.read_bytes()
    return sealed(data[:at] + part + data[at + len(part) :])


def test_the_golden_file_both_ways() -> None:
    assert learned_state.read(GOLDEN) == STATE
    assert learned_state.pack(STATE) == GOLDEN.read_bytes()


def test_round_trip_of_the_largest(tmp_path: Path) -> None:
    nodes = tuple(Node(n, 65, True, 255, (65535,) * 7, (1,) * 7, 3) for n in range(18_722))
    state = replace(STATE, nodes=nodes, name="x" * 31, gate=Gate())
    state = replace(state, frames=())
    (tmp_path / "s.learned").write_bytes(learned_state.pack(state))
    assert learned_state.read(tmp_path / "s.learned") == state
    assert (tmp_path / "s.learned").stat().st_size <= 1 << 20
    with pytest.raises(StateError, match="larger than 1 MiB"):
        learned_state.pack(replace(state, nodes=(*nodes, Node(18_722, 1, elders=1))))


def test_a_file_of_version_1_is_read(tmp_path: Path) -> None:
    old = learned_state.read(GOLDEN.with_name("learned_v1.learned"))
    nodes = tuple(replace(node, parent=0, word=0) for node in STATE.nodes)
    assert old == replace(STATE, nodes=nodes, frames=(), modules=0)


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
        (with_bytes(8, b"\x03"), "version 3, not 1 or 2"),
        (with_bytes(8, b"\x01"), "do not hold 3 nodes"),
        (with_bytes(12, b"\xff\xff\xff\xff"), "do not hold 4294967295 nodes"),
        (with_bytes(24, b"a/b"), "header is not sane"),
        (with_bytes(24, b"\0"), "header is not sane"),
        (with_bytes(40, b"x"), "header is not sane"),
        (with_bytes(60, b"\x05"), "header is not sane"),
        (with_bytes(61, b"\x06"), "header is not sane"),
        (with_bytes(64, bytes(4)), "header is not sane"),
        (with_bytes(64, struct.pack("<I", (1 << 20) + 1)), "header is not sane"),
        (with_bytes(68, struct.pack("<I", 1_000_001)), "header is not sane"),
        (with_bytes(92, b"\xff" * 4), "header is not sane"),
        (with_bytes(112, b"\x00"), "nodes are not sane"),
        (with_bytes(112, b"\x80"), "nodes are not sane"),
        (with_bytes(112, b"\x42"), "nodes are not sane"),
        (with_bytes(112, b"\xff"), "nodes are not sane"),
        (with_bytes(114, bytes(30)), "nodes are not sane"),
        (with_bytes(104, b"\xff" * 8), "nodes are not sane"),
        (with_bytes(104 + 40, b"\x01"), "nodes are not sane"),
        (with_bytes(104 + 48, b"\x01"), "nodes are not sane"),
        (with_bytes(104 + 40, bytes(8)), "nodes are not sane"),
        (with_bytes(NODES_END + 7, b"\xff"), "nodes are not sane"),
        (with_bytes(NODES_END + 2 * 40 + 8, b"\x03"), "do not hold 3 nodes and 3 frames"),
    ],
)
def test_refusals(tmp_path: Path, data: bytes, cause: str) -> None:
    (tmp_path / "s.learned").write_bytes(data)
    with pytest.raises(StateError) as caught:
        learned_state.read(tmp_path / "s.learned")
    assert cause in str(caught.value)


def test_only_what_reads_back_is_packed() -> None:
    for wrong in (replace(STATE, name=""), replace(STATE, name="a b"), replace(STATE, runs=-1)):
        with pytest.raises(StateError, match="state of"):
            learned_state.pack(wrong)


def test_golden_evidence() -> None:
    cases = json.loads(GOLDEN.with_name("evidence.json").read_text())["cases"]
    assert len(cases) == len(golden_learned.EVIDENCE)
    for case in cases:
        node = Node(1, 1, False, 0, tuple(case["deaths"]), tuple(case["young"]), case["elders"])
        assert (verdict(node) or "") == case["verdict"]


def test_a_state_is_summed_up() -> None:
    summary = summarise(STATE, "s.learned")
    assert (summary.program, summary.build) == ("redis-server", "cc927f6ee23a0f61")
    assert (summary.contexts, summary.sites, summary.differing) == (3, 1, 1)
    assert (summary.samples, summary.undecided, summary.unseen) == (708, 0, 0)
    assert summary.decided == {}
    site, other = replace(STATE.nodes[1], differs=False), Node(7, 1, elders=1, unseen=2)
    summary = summarise(replace(STATE, nodes=(other, site)), "s.learned")
    assert (summary.differing, summary.undecided, summary.unseen) == (0, 1, 1)
    assert summary.decided == {"mixed": 1}


BLIND = GateWaste(2, NO_FIGURE, 250, 300, 1833)
FORETOLD = GateWaste(low=50)
PLACED = GateWaste(1, NO_FIGURE, 100, 300, 1333)


def test_the_gate_speaks_in_sentences() -> None:
    assert gate_text(STATE.gate) == (
        "Objects are placed by lifetime, since that saves memory: it saves 91 MiB in troughs of a "
        "load of 656 MiB, as measured. At low load, free memory that stays held is 19% of the peak "
        "without it (held / live 1.47), 5% of the peak with it (held / live 1.12)."
    )
    assert "not placed by lifetime, since" in gate_text(Gate(GateVerdict.FAILS, 1, BLIND))
    assert "not placed by lifetime any more" in gate_text(Gate(GateVerdict.FAILS, 5, BLIND))
    assert "since predictions did not hold" in gate_text(Gate(GateVerdict.MISTAKEN, 1, BLIND))


def test_untried_it_says_at_most_what_is_pinned() -> None:
    assert gate_text(Gate()) == (
        "It is not known yet whether placing objects by lifetime pays: no trough of the load was "
        "measured."
    )
    assert gate_text(Gate(blind=BLIND, peak=1000)) == (
        "It is not known yet whether placing objects by lifetime pays: it can save at most 250 MiB "
        "in troughs of a load of 1,000 MiB, which is all that stays held. At low load, free memory "
        "that stays held is 25% of the peak without it (held / live 1.83)."
    )


def test_armed_it_says_what_the_trough_foretells() -> None:
    gate = Gate(GateVerdict.ON_TRIAL, blind=BLIND, placed=FORETOLD, peak=1000)
    assert gate_text(gate) == (
        "The next start places objects by lifetime, on trial: it would save 200 MiB in troughs of "
        "a load of 1,000 MiB, as estimated. At low load, free memory that stays held is 25% of the "
        "peak without it (held / live 1.83)."
    )
    unknown = gate_text(replace(gate, placed=GateWaste()))
    assert "on trial: it can save at most 250 MiB in troughs" in unknown


def test_on_trial_it_says_what_was_measured_so_far() -> None:
    text = gate_text(Gate(GateVerdict.ON_TRIAL, blind=BLIND, placed=PLACED, peak=1000))
    assert "lifetime, on trial: it saves 150 MiB in troughs of a load of 1,000 MiB, as" in text
    assert "10% of the peak with it" in text


def test_given_up_it_says_what_was_measured() -> None:
    for low, said in ((250, "saves only 0 MiB"), (300, "costs 50 MiB")):
        gate = Gate(GateVerdict.FAILS, 1, BLIND, replace(PLACED, low=low), 1000)
        assert f"did not pay: it {said} in troughs of a load of 1,000 MiB, as" in gate_text(gate)
    blind, dear = replace(BLIND, high=20), replace(PLACED, high=50)
    text = gate_text(Gate(GateVerdict.FAILS, 1, blind, dear, 1000))
    assert "a load of 1,000 MiB, as measured, and costs 30 MiB at high load." in text
    for given_up in (GateVerdict.FAILS, GateVerdict.MISTAKEN):
        text = gate_text(Gate(given_up, 1, BLIND, FORETOLD, 1000))
        assert ": what it saves in troughs was not measured." in text


def test_of_a_load_of_unknown_size_it_says_the_share() -> None:
    text = gate_text(Gate(GateVerdict.HELPS, blind=BLIND, placed=PLACED))
    assert "since that saves memory: it saves 15% of the peak in troughs, as measured." in text


def test_report_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["report", str(GOLDEN), "--html", str(tmp_path / "s.html")]) == 0
    assert "redis-server" in (tmp_path / "s.html").read_text()
    assert call(["report", str(GOLDEN)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "redis-server (build cc927f6ee23a0f61): 708 samples; runs: 3, call sites: 1, contexts: 3"
        in text
    )
    assert (
        "Objects are placed by lifetime" in text and "depends on the size or on callers 1" in text
    )
    assert call(["report", "--json", str(GOLDEN)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["runs"] == 3


def test_report_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.learned").write_bytes(GOLDEN.read_bytes()[:-1])
    assert call(["report", str(tmp_path / "s.learned")]) == 1
    said = "s.learned: damaged, 367 bytes do not hold 3 nodes and "
    assert said in capsys.readouterr().err

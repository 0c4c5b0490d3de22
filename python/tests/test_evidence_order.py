# SPDX-License-Identifier: Apache-2.0
"""Exact table, name table, site prior, network: learned, asked in order, measured, judged."""

import json
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import golden_learned, profile_writer, synthetic

from llamalloc import cli
from llamalloc.formats import frame_names, learned_state, model_file, profile
from llamalloc.formats.histogram import bucket_of
from llamalloc.formats.learned_state import (
    Gate,
    GateVerdict,
    GateWaste,
    LearnedState,
    Node,
    code_key,
    hash_build_id,
    key_of,
)
from llamalloc.formats.model_file import DEEPER, OPEN
from llamalloc.formats.profile import ProfileError
from llamalloc.learning import context_tree, contexts, evidence, labels, tables, trial, verdict
from llamalloc.learning.context_tree import Leaf, Rule
from llamalloc.learning.contexts import Kept, Seen
from llamalloc.learning.lookup import Lookup
from llamalloc.learning.survival import Lives
from llamalloc.learning.train import train
from llamalloc.reporting import train_report

BUILD_ID = "00112233445566778899aabbccddeeff00112233"
BUILD = hash_build_id(bytes.fromhex(BUILD_ID))
CLASS = {name: number for number, name in enumerate(labels.CLASS_NAMES)}
SHORT, LONG = Lives({60: 100}, {}), Lives({}, {140: 100}, elders=100)
THIN = Lives({60: 16}, {})


def build_of(made: profile.Profile, path: Path, build_id: str = BUILD_ID) -> Path:
    """The profile of one build: frames lie where their names say."""
    message = profile_writer.message_of(made)
    names = {f.id: message.string_table[f.name] for f in message.function}
    for location in message.location:
        name = names[location.line[0].function_id]
        location.address = 0x401000 + zlib.crc32(name + build_id.encode()) % 0x3F0000
    index = list(message.string_table).index(BUILD_ID.encode())
    message.string_table[index] = build_id.encode()
    return profile_writer.write_message(message, path)


def seen(frames, lives, size=64, allocations=100.0, build=BUILD):
    codes = tuple(code_key(build, zlib.crc32(frame.encode())) for frame in frames)
    return Seen(codes, tuple(frames), size, lives, allocations, allocations * size)


def lookup_of(*known, kept=None):
    evidence = tables.build(known, kept or Kept(), Rule())
    return Lookup(evidence._replace(prior_trust=np.ones(4, np.float32)))


def asked(lookup, frames, size=64, build=BUILD):
    one = seen(frames, SHORT, size, build=build)
    found = lookup.find(one.codes, one.frames, size)
    return found.kind, labels.CLASS_NAMES[found.lifetime]


def test_counts_by_class_keep_their_class():
    for number in range(learned_state.CLASSES):
        deaths = tuple(int(c == number) for c in range(learned_state.CLASSES))
        (bucket,) = contexts.lives_of_node(Node(1, 1, deaths=deaths)).dead
        assert labels.class_of_bucket(bucket) == number


def test_a_tree_is_no_deeper_than_contexts_differ():
    def grow(*parts):
        leaves = [Leaf(w, lives, 1.0, Rule().label(lives)) for w, lives in parts]
        return context_tree.grow(leaves, Rule())

    short, long = CLASS["le_10ms"], CLASS["never"]
    same = grow(((1, 64, 2), SHORT), ((1, 64, 3), SHORT))
    assert {key: answer.byte for key, answer in same.items()} == {key_of(1): short}
    apart = grow(((1, 64, 2), SHORT), ((1, 64, 3), LONG))
    assert apart[key_of(1)].byte == apart[key_of(1, 64)].byte == DEEPER
    assert apart[key_of(1, 64, 2)].byte == short and apart[key_of(1, 64, 3)].byte == long
    thin = grow(((1, 64, 2), SHORT), ((1, 64, 3), LONG), ((1, 64, 4), THIN))
    assert thin[key_of(1, 64, 4)].byte == OPEN
    assert thin[key_of(1)].samples == 216
    ends = grow(((1, 64, 2), SHORT), ((1, 64, 3), SHORT), ((1, 64), LONG))
    assert ends[key_of(1, 64)].byte == DEEPER, "a stack may end where others go on"
    assert ends[key_of(1, 64, 2)].byte == ends[key_of(1, 64, 3)].byte == short


@pytest.mark.parametrize("samples", [300, 22])
@pytest.mark.parametrize("other", [(1, 64, 3), (1, 64)], ids=["a caller", "no caller"])
def test_parts_that_seem_to_live_long_are_told_apart_before_they_are_decided(samples, other):
    brief = Lives({128: samples}, {})
    kept = contexts.lives_of_node(Node(1, 1, deaths=(0, 0, 0, 0, 11, 0, 0)))
    soon = contexts.lives_of_node(Node(1, 1, deaths=(0, 0, 0, 9, 2, 0, 0)))

    def answer(first, second):
        parts = ((1, 64, 2), first), (other, second)
        leaves = [Leaf(words, lives, 1.0, Rule().label(lives)) for words, lives in parts]
        return context_tree.grow(leaves, Rule())[key_of(1, 64)].byte

    assert answer(brief, kept) == DEEPER
    assert answer(brief, soon) != DEEPER
    assert answer(Lives({128: 16}, {}), kept) != DEEPER, "27 samples are too few"
    many = contexts.lives_of_node(Node(1, 1, deaths=(0, 0, 0, 0, 31, 0, 0)))
    assert answer(Lives({128: 1}, {}), many) != DEEPER, "one that died is chance"


def test_by_rule_p95_a_node_that_dies_young_may_have_parts_that_do_not():
    many, brief = Lives({60: 10_000}, {}), Lives({128: 100}, {})

    def bytes_by(rule):
        leaves = [
            Leaf((1, 64, n), lives, 1.0, rule.label(lives)) for n, lives in ((2, many), (3, brief))
        ]
        return {answer.byte for answer in context_tree.grow(leaves, rule).values()}

    p95 = Rule("p95")
    assert p95.label(contexts.total([many, brief])) == CLASS["le_10ms"]
    assert bytes_by(p95) == {DEEPER, CLASS["le_10ms"], CLASS["le_10s"]}


def kept_at(key, deaths=(), young=(), elders=0):
    """One node of a state file; counts by class."""
    whole = [
        (*counts, *(0,) * learned_state.CLASSES)[: learned_state.CLASSES]
        for counts in (deaths, young)
    ]
    node = Node(key, 1, deaths=whole[0], young=whole[1], elders=elders)
    return contexts.gather([LearnedState(BUILD, "server", 1, nodes=(node,))]), node


def test_a_whole_counts_what_its_state_file_saw_of_no_part():
    key = key_of(1)
    kept, _ = kept_at(key, deaths=(20_000,), young=(0,) * 6 + (200,), elders=200)
    for callers in (1, 2):
        leaves = [Leaf((1, 64, 2 + n), SHORT, 1.0, CLASS["le_10ms"]) for n in range(callers)]
        assert context_tree.grow(leaves, Rule(), kept)[key].byte == CLASS["mixed"]


@pytest.mark.parametrize(
    ("deaths", "young", "elders", "name"),
    [
        ((0, 0, 0, 500), (0, 0, 10, 30, 60), 70, "le_100s"),  # in flight: one class above
        ((0, 0, 0, 500), (0, 0, 0, 0, 0, 0, 60), 60, "mixed"),
        ((5,), (0, 0, 0, 0, 60), 60, "never"),
        ((), (0, 0, 1000), 0, None),  # nothing has died yet
    ],
)
def test_a_state_file_is_decided_as_the_learner_decides(deaths, young, elders, name):
    key = key_of(1)
    kept, node = kept_at(key, deaths, young, elders)
    assert evidence.verdict(node) == name
    answer = context_tree.grow([], Rule(), kept)[key]
    assert answer.byte == (OPEN if name is None else CLASS[name])
    assert name is None or answer.prior == CLASS[name]


def test_counts_by_class_and_by_bucket_are_the_same():
    _, node = kept_at(1, (1, 2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 2, 1), 3)
    back = contexts.counts_of(contexts.lives_of_node(node))
    assert (back.deaths, back.young, back.elders) == (node.deaths, node.young, node.elders)
    stays = contexts.counts_of(Lives({60: 100}, {}, immortal=5))
    assert evidence.verdict(stays) == "mixed"


def test_evidence_is_asked_in_its_order():
    known = (
        seen(("zmalloc", "create", "main"), LONG),
        seen(("zmalloc", "reply", "main"), SHORT, allocations=900),
        seen(("zmalloc", "scan", "main"), THIN),
    )
    lookup = lookup_of(*known)
    assert asked(lookup, ("zmalloc", "create", "main")) == ("exact", "never")
    assert asked(lookup, ("zmalloc", "create.part.0", "main"), build=5) == ("name", "never")
    assert asked(lookup, ("zmalloc", "fresh", "main"), build=5) == ("prior", "le_10ms")
    assert asked(lookup, ("zmalloc", "scan", "main")) == ("prior", "le_10ms")  # too few samples
    assert asked(lookup, ("calloc", "create", "main"), build=5) == ("prior", "never")
    assert asked(lookup, ("calloc", "unheard"), build=5) == ("none", "mixed")


def test_a_state_file_and_a_profile_are_one_evidence():
    thin = seen(("zmalloc", "scan"), THIN)
    others = seen(("zmalloc", "keep"), LONG), seen(("zmalloc", "reply"), SHORT)
    key = key_of(thin.codes[0], 64, thin.codes[1])
    state = LearnedState(BUILD, "server", 1, nodes=(Node(key, 3, deaths=(20, 0, 0, 0, 0, 0, 0)),))
    assert asked(lookup_of(thin, *others), ("zmalloc", "scan"))[0] == "prior"
    both = lookup_of(thin, *others, kept=contexts.gather([state]))
    assert asked(both, ("zmalloc", "scan")) == ("exact", "le_10ms")
    assert asked(both, ("zmalloc", "scan"), build=5) == ("name", "le_10ms")


def test_nodes_without_a_profile_answer_by_build():
    kept = contexts.gather([golden_learned.STATE, golden_learned.STATE])
    evidence = tables.build((), kept, Rule())
    answers = dict(zip(evidence.exact_keys.tolist(), evidence.exact_answers.tolist(), strict=True))
    site, caller = golden_learned.SITE, golden_learned.CALLER
    assert answers[key_of(site)] == answers[key_of(site, 64)] == DEEPER
    assert answers[key_of(site, 64, caller)] == CLASS["never"]
    samples = dict(zip(evidence.exact_keys.tolist(), evidence.exact_samples.tolist(), strict=True))
    assert samples[key_of(site, 64)] == 2 * golden_learned.STATE.nodes[0].samples


def test_names_survive_a_rebuild():
    assert frame_names.lasting_part("parse.constprop.0") == "parse"
    assert frame_names.lasting_part("_ZN1a1bEv.isra.0.cold") == "_ZN1a1bEv"
    assert frame_names.lasting_part(".hidden") == ".hidden"
    assert frame_names.name_key("?libc.so.6+0x10") != frame_names.name_key("?libc.so.6+0x20")
    assert frame_names.caller_key("?libc.so.6+0x10") == frame_names.caller_key("?libc.so.6+0x20")
    assert frame_names.caller_key("main") != frame_names.name_key("main")


def test_the_first_511_bytes_of_a_name_count():
    name = "Q" * 511
    assert frame_names.name_key(name) == frame_names.name_key(name + "R.cold")
    assert frame_names.caller_key(name) == frame_names.caller_key(name + "R")
    assert frame_names.caller_key(f"?{name}") == frame_names.caller_key(f"?{name}+0x10")
    assert frame_names.name_key(name) != frame_names.name_key(name[1:])


def test_frames_are_numbered_by_build_and_offset(tmp_path):
    made = synthetic.profile(contexts=2)
    path = build_of(made, tmp_path / "p.pb.gz")
    read = profile.read(path)
    assert read.build == BUILD
    for context in read.contexts:
        offsets = [zlib.crc32((f + BUILD_ID).encode()) % 0x3F0000 + 0x1001 for f in context.frames]
        assert context.codes == tuple(code_key(BUILD, offset) for offset in offsets)


def test_a_comment_says_where_a_module_begins(tmp_path):
    message = profile_writer.message_of(synthetic.profile(contexts=1))
    message.string_table.append(b"llamalloc-module 1 3ff000 77")
    message.comment.append(len(message.string_table) - 1)
    read = profile.read(profile_writer.write_message(message, tmp_path / "p.pb.gz"))
    assert read.build == 0x77
    offset = message.location[0].address + 1 - 0x3FF000
    assert code_key(0x77, offset) in read.contexts[0].codes
    message.string_table[-1] = b"llamalloc-module 1 zz"
    with pytest.raises(ProfileError, match="damaged"):
        profile.read(profile_writer.write_message(message, tmp_path / "q.pb.gz"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one build and one of another, as files."""
    folder = tmp_path_factory.mktemp("runs")
    made = {seed: synthetic.profile(seed=seed, contexts=64) for seed in (1, 2, 3)}
    paths = [build_of(made[seed], folder / f"{seed}.pb.gz") for seed in (1, 2)]
    return [*paths, build_of(made[3], folder / "3.pb.gz", "ff" * 20)]


def kinds(result):
    return {score.kind: score for score in result.trial.kinds}


def test_another_run_is_known_exactly_another_build_by_name(runs, tmp_path):
    result = train(runs[:2], tmp_path / "m", steps=20)
    assert kinds(result)["exact"].allocations > 0.9
    assert result.trial.total.right_allocations > 0.9
    assert result.evidence.table_trust[0] > 0.9
    assert model_file.read(tmp_path / "m").programs == ("server",)
    result = train([runs[0], runs[2]], tmp_path / "m", steps=20)
    assert "exact" not in kinds(result)
    assert kinds(result)["name"].right_allocations > 0.9
    assert len(result.evidence.builds) == 2


def test_one_run_does_not_judge_itself(runs, tmp_path):
    result = train(runs[:1], tmp_path / "m", steps=20)
    assert result.verdict.use == "unknown"
    assert "second one" in result.verdict.reasons[0]
    assert result.evidence.table_trust.tolist() == [-1, -1]


def test_nothing_is_100_percent(runs, tmp_path):
    result = train(runs[:2], tmp_path / "m", steps=20)
    perfect = replace(result.trial.total, right_allocations=1.0, right_bytes=1.0)
    judged = verdict.judge(replace(result.trial, total=perfect, pins=0.0), True, [], [], [], Rule())
    assert judged.use == "yes" and "99.9 %" in judged.reasons[0]
    evidence = train_report.text(result).split("What the library")[1]
    assert "Verdict: " in evidence and "100.0 %" not in evidence.split("Verdict")[1]


@pytest.mark.parametrize(
    ("right", "right_bytes", "pins", "use"),
    [(0.8, 0.99, 0.01, "yes"), (0.99, 0.8, 0.01, "no"), (0.99, 0.99, 0.03, "no")],
)
def test_too_long_counts_by_bytes_too_short_by_objects(
    runs, tmp_path, right, right_bytes, pins, use
):
    result = train(runs[:2], tmp_path / "m", steps=20)
    total = replace(result.trial.total, right_allocations=right, right_bytes=right_bytes)
    found = replace(result.trial, total=total, pins=pins)
    assert verdict.judge(found, True, [], [], [], Rule()).use == use


def test_state_files_alone_make_an_exact_table(tmp_path, capsys):
    path = tmp_path / "redis-server.learned"
    path.write_bytes(learned_state.pack(golden_learned.STATE))
    out = tmp_path / "m"
    assert cli.call(["train", str(path), "-o", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["states"] == [str(path)] and document["profiles"] == []
    assert document["evidence"]["exact_nodes"] == 3
    assert document["verdict"]["use"] == "yes"  # the gate measured that it helps
    model = model_file.read(out)
    assert model.programs == ("redis-server",)
    assert model.evidence.builds.tolist() == [golden_learned.BUILD]
    assert cli.call(["train", str(path), "-o", str(out), "--report", str(tmp_path / "r")]) == 0
    assert "Verdict: use the model." in capsys.readouterr().out


def test_what_a_program_measured_itself_counts(runs, tmp_path):
    waste = GateWaste(rounds=2, low=200, depth=400, ratio=1500)
    gate = Gate(GateVerdict.FAILS, 1, waste, replace(waste, low=300))
    state = tmp_path / "server.learned"
    state.write_bytes(learned_state.pack(LearnedState(BUILD, "server", 4, gate)))
    result = train([*runs[:2], state], tmp_path / "m", steps=20)
    assert result.verdict.use == "no"
    assert result.verdict.saves_share == pytest.approx(-0.1)


def test_thin_evidence_says_how_much_longer():
    made = replace(synthetic.profile(contexts=1), duration_ns=60 * 10**9)
    judged = verdict.judge(trial.Trial(), False, [seen(("a",), THIN)], [made], [], Rule())
    assert judged.more_seconds == pytest.approx(60)
    assert any("60 seconds more" in reason for reason in judged.reasons)


def judged_by(*states):
    """By state files alone."""
    return verdict.judge(trial.Trial(), False, [], [], states, Rule())


def learned(*samples, runs=2, gate=None):
    """Call sites of which so many samples died at once."""
    nodes = tuple(
        Node(key, 1, deaths=(count, 0, 0, 0, 0, 0, 0)) for key, count in enumerate(samples, 1)
    )
    return LearnedState(BUILD, "server", runs, gate or Gate(), nodes)


def test_thin_states_say_how_many_more_runs():
    judged = judged_by(learned(900, 8, 8, 8))  # 2.6 %: one of the three has to be decided
    assert judged.more_runs == 2 * (32 / 8 - 1)
    assert any("6 more runs (so far: 2) or longer runs" in reason for reason in judged.reasons)
    assert judged_by(learned(900, 30, 1)).more_runs == 1
    enough = judged_by(learned(900, 8))
    assert enough.more_runs == 0 and not any("more run" in reason for reason in enough.reasons)
    assert judged_by(learned()).more_runs == 0
    alike = judged_by(learned(900, 20, 20), learned(900, 20, 20))
    assert alike.more_runs == 0, "what both saw is added"


def test_parts_decide_where_a_site_differs():
    whole, parts = learned(900), learned(0, 800, 100, 8, 8, 8)
    site = replace(whole.nodes[0], differs=True)
    deeper = tuple(replace(node, level=2) for node in parts.nodes[1:])
    assert judged_by(replace(whole, nodes=(site, *deeper))).more_runs == 6


def test_states_alone_are_not_measured_on_another_run():
    assert "state files do not hold single runs" in judged_by(learned(900)).reasons[0]


@pytest.mark.parametrize(
    ("decided", "use", "said"),
    [
        (GateVerdict.ON_TRIAL, "unknown", "on trial: it would save 200 MiB in troughs"),
        (GateVerdict.MISTAKEN, "unknown", "did not hold when the program placed by them: what it"),
        (GateVerdict.FAILS, "no", "does not help it: what it saves in troughs was not measured"),
    ],
)
def test_what_the_gate_decided_is_a_reason(decided, use, said):
    blind = GateWaste(rounds=2, low=250, depth=400, ratio=1500)
    gate = Gate(decided, 1, blind, GateWaste(low=50), peak=1000)
    judged = judged_by(learned(900, gate=gate))
    assert judged.use == use
    assert any(said in reason for reason in judged.reasons), judged.reasons
    if use == "unknown":
        assert any("ne more run" in reason for reason in judged.reasons)


def test_of_gates_that_decided_alike_the_largest_load_is_told():
    blind = GateWaste(rounds=2, low=250, depth=400, ratio=1500)
    small, large = (
        learned(900, gate=Gate(GateVerdict.HELPS, 0, blind, replace(blind, low=150), peak))
        for peak in (100, 2000)
    )
    assert any("saves 200 MiB in troughs" in r for r in judged_by(small, large).reasons)


def test_an_outlier_can_be_chance():
    lives = Lives({60: 2000}, {135: 1})
    assert trial.is_consistent(lives, CLASS["le_10ms"])
    assert not trial.is_consistent(Lives({60: 2000}, {135: 9}), CLASS["le_10ms"])


def test_outlivers_of_the_class_may_still_meet_the_deadline_of_its_page():
    in_3600_ms = Lives({60: 1000, bucket_of(3.6e9): 1000}, {})
    assert trial.is_consistent(in_3600_ms, CLASS["le_3s"])
    assert not trial.is_consistent(Lives({60: 1000, bucket_of(9e9): 1000}, {}), CLASS["le_3s"])


@pytest.mark.parametrize(
    ("learned", "lived", "right", "pins"),
    [
        (0.9e9, 1.2e9, 1, 0),  # beside the border of two groups
        (1.2e9, 0.9e9, 1, 0),
        (5e9, 1e6, 1, 0),  # both die soon
        (1e6, 5e9, 1, 0),
        (50e9, 1e6, 0, 0),
        (5e9, 50e9, 0, 1),
        (90e9, 120e9, 1, 0),  # within the deadline
    ],
)
def test_two_runs_may_disagree_where_it_costs_nothing(learned, lived, right, pins):
    first, second = (seen(("f", "main"), Lives({bucket_of(t): 100}, {})) for t in (learned, lived))
    evidence = tables.build((first,), Kept(), Rule())
    found = trial.run(evidence, (second,), None, Rule())
    assert (found.total.right_bytes, found.pins) == (right, pins)


def test_a_bad_state_file_is_one_line(tmp_path, capsys):
    path = tmp_path / "x.learned"
    path.write_bytes(learned_state.pack(golden_learned.STATE))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert cli.call(["train", str(path), "-o", str(tmp_path / "m")]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert str(path) in error and "damaged" in error
    assert not (tmp_path / "m").exists()

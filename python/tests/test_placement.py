# SPDX-License-Identifier: Apache-2.0
"""What recorded runs prove of placement: by thresholds, by states, and in the model file."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support import golden_learned, profile_writer, synthetic

from llamalloc.formats import learned_state, model_file
from llamalloc.formats.learned_state import Gate, GateVerdict, GateWaste, LearnedState
from llamalloc.formats.profile import Context, Profile
from llamalloc.learning import contexts, placement, saving, verdict
from llamalloc.learning.context_tree import Rule
from llamalloc.learning.train import train
from llamalloc.reporting import train_report

MIB = 1 << 20
PINS = Gate(blind=GateWaste(2, 50, 260, 400, 1650), peak=512)


def context(name: str, freed: int, kept: int) -> Context:
    """MiB that died within a second and that stayed, 64 samples each."""
    return Context(
        frames=(name,),
        codes=(hash(name) | 1,),
        bytes=1024,
        allocated_objects=(freed + kept) * 1024,
        allocated_bytes=(freed + kept) * MIB,
        deallocated_objects=freed * 1024,
        deallocated_bytes=freed * MIB,
        censored_objects=kept * 1024,
        censored_bytes=kept * MIB,
        lifetimes={100: 64} if freed else {},
        censored_ages={140: 64} if kept else {},
    )


def profile_of(gate: Gate = PINS, freed: int = 900, kept: int = 100) -> Profile:
    made = synthetic.profile(contexts=1)
    both = (context("request", freed, 0), context("store", 0, kept))
    return replace(made, contexts=both, gate=gate, exiting=True, duration_ns=60 * 10**9)


def proof(*profiles: Profile, states: tuple[LearnedState, ...] = ()) -> GateVerdict:
    seen = contexts.pool(profiles)
    return placement.proof(states, profiles, seen, Rule()).verdict


def state(verdict: GateVerdict) -> LearnedState:
    gate = replace(PINS, verdict=verdict)
    return LearnedState(1, "server", 2, gate)


def test_troughs_that_pin_much_and_lives_that_separate_are_a_trial():
    assert proof(profile_of()) == GateVerdict.ON_TRIAL
    little = replace(PINS, blind=replace(PINS.blind, low=180))  # 16 % would be saved
    assert proof(profile_of(little)) == GateVerdict.ON_TRIAL


@pytest.mark.parametrize(
    "little",
    [
        profile_of(Gate()),
        profile_of(replace(PINS, peak=100)),  # 26 MiB
        profile_of(replace(PINS, blind=replace(PINS.blind, low=160))),  # 14 % would be saved
        profile_of(replace(PINS, blind=replace(PINS.blind, ratio=1400))),
        profile_of(freed=50),
    ],
)
def test_else_nothing_is_proved(little):
    assert proof(little) == GateVerdict.UNTRIED


@pytest.mark.parametrize("verdict", [GateVerdict.FAILS, GateVerdict.MISTAKEN])
def test_a_profile_whose_process_gave_placement_up_proves_nothing(verdict):
    given_up = profile_of(replace(PINS, verdict=verdict, reversals=5))
    assert proof(given_up) == GateVerdict.UNTRIED


def test_predictions_that_failed_do_not_speak_against_placement():
    assert proof(profile_of(), states=(state(GateVerdict.MISTAKEN),)) == GateVerdict.ON_TRIAL


def test_a_trial_begins_anew():
    again = replace(PINS, verdict=GateVerdict.ON_TRIAL, reversals=3, placed=PINS.blind)
    profiles = [profile_of(again)]
    made = placement.proof((), profiles, contexts.pool(profiles), Rule())
    assert (made.verdict, made.reversals, made.placed.rounds) == (GateVerdict.ON_TRIAL, 0, 0)


def test_a_trial_says_what_it_foretells():
    made = profile_of()
    proved = placement.proof((), [made], contexts.pool([made]), Rule())
    assert proved.placed.low == 26  # 0.9 of 260 would go
    assert saving.clause(proved) == (
        "it would save 120 MiB in troughs of a load of 512 MiB, as estimated"
    )
    assert learned_state.gate_of_text(learned_state.text_of_gate(proved)) == proved
    nothing_left = replace(made, contexts=(context("r", 9000, 0), context("s", 0, 1)))
    proved = placement.proof((), [nothing_left], contexts.pool([nothing_left]), Rule())
    assert proved.placed.low == 1  # 0 would mean that nothing is foretold


def test_of_several_profiles_the_largest_load_counts():
    small = profile_of(replace(PINS, peak=10))
    assert proof(small, profile_of()) == GateVerdict.ON_TRIAL
    assert proof(profile_of(replace(PINS, peak=10)), small) == GateVerdict.UNTRIED


@pytest.mark.parametrize("verdict", [GateVerdict.HELPS, GateVerdict.ON_TRIAL])
def test_what_a_program_decided_itself_comes_first(verdict):
    assert proof(profile_of(Gate()), states=(state(verdict),)) == verdict
    both = (state(verdict), state(GateVerdict.FAILS))
    assert proof(profile_of(), states=both) == GateVerdict.UNTRIED


def test_the_model_file_holds_it_and_the_report_says_so(tmp_path):
    learned = tmp_path / "s.learned"
    learned.write_bytes(learned_state.pack(golden_learned.STATE))
    recorded = profile_writer.write(synthetic.profile(contexts=8), tmp_path / "server.pb.gz")
    out = tmp_path / "m.model"
    result = train([learned], out, steps=20)
    assert model_file.read(out).gate == golden_learned.STATE.gate
    said = train_report.text(result)
    assert "from its first allocation on: it saves 91 MiB in troughs of a load of 656 MiB" in said
    assert result.to_json()["places_from_start"] is True
    blind = train([recorded], out, steps=20)
    assert model_file.read(out).gate == Gate()
    assert "starts without placing" in train_report.text(blind)


def test_a_held_out_run_proves_as_well(tmp_path, monkeypatch):
    runs = [
        profile_writer.write(synthetic.profile(seed=n, contexts=8), tmp_path / f"{n}.pb.gz")
        for n in (1, 2)
    ]
    asked = []

    def note(states, profiles, *rest):
        asked.append(len(profiles))
        return Gate()

    monkeypatch.setattr(placement, "proof", note)
    monkeypatch.setattr(verdict, "judge", lambda *_: SimpleNamespace(use="yes"))
    train(runs[:1], tmp_path / "m", steps=20)
    train(runs[:1], tmp_path / "m", steps=20, holdout=runs[1:])
    train(runs, tmp_path / "m", steps=20)
    assert asked == [1, 2, 2]

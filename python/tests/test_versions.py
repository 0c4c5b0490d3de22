# SPDX-License-Identifier: Apache-2.0
"""lab.versions: which cases there are, what the predictors answer, how it is scored."""

import numpy as np
import pytest

from lab.places import ROOT
from lab.versions import apt, cases, contest, evidence, main, measure, predictors, scores, students
from lab.versions.builds import CLANG_O2, GCC_O2, Build, Workshop
from lab.versions.cases import Case
from lab.versions.predictors import SILENT
from lab.versions.recording import Run, load_name, profile_of
from lab.workloads.recipe import WorkloadError
from llamalloc.learning import labels
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.survival import Lives

SHORT = Lives(dead={80: 100}, young={})  # 1 ms
STAYS = Lives(dead={}, young={}, immortal=100)
MIDDLE = Run(Build("redis", "bookworm", GCC_O2))


def data(*contexts: tuple[str, int, Lives, float]) -> Dataset:
    """Of (frames "name:code name:code", size, lives, weight)."""
    frames = tuple(tuple(part.replace(":", "\t") for part in one[0].split()) for one in contexts)
    lives = tuple(one[2] for one in contexts)
    return Dataset(
        frames,
        tuple(one[1] for one in contexts),
        lives,
        np.array([one[3] for one in contexts], dtype=np.float64),
        np.array([labels.label(one) for one in lives]),
    )


LEARNED = data(
    ("put:1 serve:2", 64, STAYS, 10.0),
    ("reply:3 serve:2", 64, SHORT, 90.0),
    ("make.part.0:4 start:5", 32, STAYS, 5.0),
)


@pytest.mark.parametrize(
    ("other", "relation"),
    [
        (Run(MIDDLE.build, 2), cases.OTHER_RUN),
        (Run(Build("redis", "bookworm", GCC_O2, True)), cases.STRIPPED),
        (Run(Build("redis", "bookworm", CLANG_O2)), cases.REBUILT),
        (Run(Build("redis", "trixie", GCC_O2)), cases.VERSION),
        (Run(Build("redis", "trixie", CLANG_O2)), cases.BOTH),
    ],
)
def test_relation_of_two_builds(other, relation):
    assert Case((MIDDLE,), other).relation == relation
    assert Case((MIDDLE,), other) in cases.cases([MIDDLE, other])


def test_a_run_is_never_learned_from_before_it_is_tested():
    runs = [run for program in ("redis", "rocksdb") for run in cases.runs(program)]
    for case in cases.cases(runs):
        assert case.test not in case.learn
        assert {run.build.program for run in case.learn} == {case.program}


def test_other_builds_do_not_hold_the_code_under_test():
    runs = cases.runs("redis")
    many = [case for case in cases.cases(runs) if case.relation == cases.OTHER_BUILDS]
    assert many
    for case in many:
        code = (case.test.build.release, case.test.build.compiler)
        assert code not in {(run.build.release, run.build.compiler) for run in case.learn}


def test_tables_know_code_by_its_place_and_by_its_name():
    tables = predictors.Tables(LEARNED, "tail")
    same, moved, new = (
        data((text, 64, STAYS, 1.0))
        for text in ("put:1 serve:2", "put:7 serve:8", "fetch:9 serve:8")
    )
    assert tables.exact(same).tolist() == [labels.NEVER]
    assert tables.exact(moved).tolist() == [SILENT]
    assert tables.names(moved).tolist() == [labels.NEVER]
    assert tables.names(new).tolist() == [SILENT]
    assert tables.prior(new)[0] != SILENT


def test_a_clone_of_a_function_keeps_its_name():
    tables = predictors.Tables(LEARNED, "tail")
    moved = data(("make.constprop.1:8 start:9", 32, STAYS, 1.0))
    assert tables.names(moved).tolist() == [labels.NEVER]


def test_chains_can_leave_out_a_context_s_own_vote():
    chains = predictors.Chains(LEARNED)
    own = chains.shares(LEARNED)
    others = chains.shares(LEARNED, without=True)
    assert own[0, labels.NEVER] == 1.0
    assert others[0, labels.NEVER] < 0.5  # what is left says that serve's objects die


def test_nearest_answers_by_shared_functions():
    found = predictors.Nearest(LEARNED).predict(data(("alloc:9 make:8 start:7", 32, STAYS, 1.0)))
    assert found.tolist() == [labels.NEVER]


def test_what_many_runs_teach_fits_into_a_file_name():
    some, all_runs = (tuple(cases.runs("redis")[:n]) for n in (2, 14))
    names = [measure.file_name(runs) for runs in (some, all_runs, all_runs[1:])]
    assert len(set(names)) == 3 and max(map(len, names)) < 200
    assert names[0] == "+".join(map(str, some))


def test_silence_is_wrong_and_what_may_be_chance_is_harmless():
    outliver = Lives(dead={80: 2000}, young={140: 1})
    tested = data(("a:1", 16, outliver, 3.0), ("b:2", 16, SHORT, 1.0))
    found = scores.scored(tested, np.array([0, SILENT])).weighted
    assert (found.known, found.near, found.group, found.fair) == (0.75, 0.0, 0.0, 0.75)
    longer = scores.scored(tested, np.array([SILENT, labels.NEVER])).weighted
    assert longer.fair == 0.0


@pytest.mark.parametrize("name", ["bag", "LSTM", "bag + prior", "bag, ordinal"])
def test_a_student_learns_what_the_names_tell(name, monkeypatch):
    monkeypatch.setattr(students, "STEPS", 60)
    rows = [(f"x{i}:1 put:2 main:3", 64, STAYS, 1.0) for i in range(8)]
    rows += [(f"y{i}:1 reply:4 main:3", 64, SHORT, 1.0) for i in range(8)]
    student = next(one for one in students.STUDENTS if one.name == name)
    trained = students.Trained(student, data(*rows))
    unknown = data(("z:1 put:2 main:3", 64, STAYS, 1.0), ("w:1 reply:4 main:3", 64, SHORT, 1.0))
    assert scores.scored(unknown, trained.predict(unknown)).unweighted.group == 1.0


def test_frames_move_as_inlining_moves_them(monkeypatch):
    monkeypatch.setattr(students.fit, "FRAME_DROPOUT", 1 / 3)
    monkeypatch.setattr(students.fit, "FRAME_INSERTION", 1 / 3)
    words = np.arange(1, 4)[None, :, None] * np.ones((300, 1, 2), np.int32)
    moved = students._moved(words.astype(np.int32), np.random.default_rng(0))
    rows = {tuple(row) for row in moved[:, :, 0].tolist()}
    assert {(1, 2, 3), (2, 3, 0), (1, 3, 0), (0, 1, 2), (1, 0, 2), (0, 0, 0)} <= rows
    for row in rows:
        there = [word for word in row if word]
        assert there == sorted(set(there))
    assert np.array_equal(moved[:, :, 0], moved[:, :, 1])


def test_a_network_wins_only_if_it_beats_the_prior_both_ways_in_every_program():
    def some(weighted: float, unweighted: float) -> scores.Scored:
        rights = [scores.Right(1, 0, 0, share, share) for share in (weighted, unweighted)]
        return scores.Scored(10, *rights)

    redis = Case((MIDDLE,), Run(Build("redis", "trixie", GCC_O2)))
    rocks = Case((Run(Build("rocksdb", "bookworm", GCC_O2)),), Run(Build("rocksdb", "x", GCC_O2)))
    prior, better, half, other = some(0.5, 0.5), some(0.6, 0.6), some(0.6, 0.4), some(0.4, 0.6)
    both = [(redis, {measure.PRIOR: prior, "a": better, "b": half, "c": other}),
            (rocks, {measure.PRIOR: prior, "a": better, "b": better, "c": better})]  # fmt: skip
    assert contest.winners(both) == ["a"]
    assert contest.winners([(redis, {measure.PRIOR: prior, "b": half})]) == []


def test_what_is_made_is_not_made_again(tmp_path):
    found = tmp_path / "profiles" / load_name(1.0) / f"{MIDDLE}.pb.gz"
    found.parent.mkdir(parents=True)
    found.touch()
    shop = Workshop(tmp_path)
    assert profile_of(MIDDLE, shop, tmp_path, 1.0, print) == found
    binary = tmp_path / "bin" / str(MIDDLE.build)
    binary.parent.mkdir()
    binary.touch()
    assert shop.binary(MIDDLE.build) == binary
    with pytest.raises(WorkloadError, match="not recorded"):
        profile_of(Run(MIDDLE.build, 2), shop, tmp_path, 1.0, print, only_recorded=True)


def test_sources_are_never_kept_in_the_checkout(capsys):
    with pytest.raises(SystemExit):
        main.arguments(["--cache", str(ROOT / "out")])
    assert "outside" in capsys.readouterr().err


def test_names_and_codes_of_a_frame():
    frames = ("put.isra.0\t1f", "serve\t0")
    assert evidence.names(frames) == ("put.isra.0", "serve")
    assert evidence.source_names(frames) == ("put", "serve")
    assert evidence.codes_of(frames) == (0x1F, 0)


def test_a_release_without_the_package_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(apt, "_mirrors", lambda: {"": "file:/nowhere"})
    with pytest.raises(apt.AptError, match=r"^[^\n]+$"):
        apt.Release("bookworm", tmp_path).source("redis", tmp_path / "into")


def test_upstreams_source_does_where_the_mirror_lags_behind_its_lists(tmp_path, monkeypatch):
    asked = []

    def run(words, folder):
        asked.append(words)
        if words[0] == "apt-get" and "--tar-only" not in words:
            raise apt.AptError("404")
        (folder / "redis_8.orig.tar.gz").touch()
        if words[0] == "tar":
            (folder / "redis-8").mkdir()
        return ""

    monkeypatch.setattr(apt, "_run", run)
    monkeypatch.setattr(apt.Release, "_update", lambda self: None)
    monkeypatch.setattr(apt.Release, "_versions", lambda self, package: ["8-2", "8-1"])
    found = apt.Release("trixie", tmp_path).source("redis", tmp_path / "into")
    assert found == tmp_path / "into" / "redis-8"
    assert [words[-1] for words in asked[:3]] == ["redis=8-2", "redis=8-1", "redis=8-2"]

# SPDX-License-Identifier: Apache-2.0
"""Profiles in, model and account out: by the API and by the command."""

import dataclasses
import gzip
import json
import re

import numpy as np
import pytest
from support import profile_writer, synthetic

from llamalloc import cli
from llamalloc.formats import contracts, model_file, profile
from llamalloc.learning import dataset, fit
from llamalloc.learning import train as training
from llamalloc.learning.train import train
from llamalloc.reporting import train_report


@pytest.fixture(scope="module")
def runs(run_of):
    return [run_of(seed=seed, contexts=96) for seed in (1, 2)]


@pytest.fixture(scope="module")
def trained(runs, run_of, tmp_path_factory):
    out = tmp_path_factory.mktemp("model") / "server.model"
    unseen = run_of(seed=3, contexts=96, version=1)
    seen = []
    result = train(runs, out, holdout=[unseen], progress=lambda *step: seen.append(step))
    return result, out, seen


def test_it_knows_what_it_learned_and_generalises_beyond_the_tables(trained):
    result, _, _ = trained
    assert result.shipped.weighted > 0.99
    unseen = result.scores["never seen"]
    assert unseen["model"].weighted > 0.8
    assert unseen["exact context"].coverage == 0
    assert unseen["model"].weighted > unseen["site"].weighted + 0.2
    assert result.scores["learned"]["exact context"].weighted == 1


def test_the_model_file_gives_the_reported_accuracy(trained, runs):
    result, out, _ = trained
    model = model_file.read(out)
    data = dataset.build([profile.read(path) for path in runs])
    chosen = fit.predict(model.weights, dataset.encode(data.tokens(), model.vocabulary))
    right = chosen.argmax(axis=1) == data.classes
    assert data.weights[right].sum() / data.weights.sum() == pytest.approx(result.shipped.weighted)


def test_json_is_json_and_complete(trained):
    document = json.loads(json.dumps(trained[0].to_json()))
    assert document["split"] == "holdout"
    assert document["dataset"]["learned"]["contexts"] == 96
    assert set(document["scores"]["measured"]) == {"model", "exact context", "site"}
    measured = document["dataset"]["measured"]["allocations"]
    assert np.sum(document["confusion"]) == pytest.approx(measured)
    assert document["model"]["bytes"] > 10_000


def test_progress_is_told_and_ends_at_the_total(trained):
    steps = trained[2]
    assert {what.split(":")[0] for what, _, _ in steps} == {
        "reading profiles",
        "learning",
        "learning what was held out",
    }
    assert all(0 <= done <= total for _, done, total in steps)
    assert steps[-1][1] == steps[-1][2]


def test_the_same_seed_writes_the_same_file(runs, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train(runs[:1], tmp_path / name, seed=seed, steps=20)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


def test_without_holdout_one_run_is_split_by_context(runs, tmp_path):
    result = train(runs[:1], tmp_path / "m", steps=50)
    assert result.split == "contexts"
    assert (len(result.learned), len(result.measured_on)) == (96, 19)
    assert result.scores["measured"]["exact context"].coverage == 0


def test_without_holdout_the_last_of_several_runs_is_measured_on_first(runs, tmp_path):
    result = train(runs, tmp_path / "m", steps=50)
    assert result.split == "last run"
    assert result.scores["measured"]["exact context"].coverage > 0.9
    assert result.learned.weights.sum() == pytest.approx(
        2 * result.measured_on.weights.sum(), rel=0.1
    )


def test_a_copy_is_no_other_run(runs, tmp_path):
    copy = tmp_path / "copy.pb.gz"
    copy.write_bytes(gzip.compress(gzip.decompress(runs[0].read_bytes()), 1))
    for again in (runs[0], copy):
        result = train([runs[0], again], tmp_path / "m", steps=5)
        assert result.split == "contexts" and result.profiles == [str(runs[0])]
        assert result.verdict.use != "yes"
        assert not any("another run it gave" in reason for reason in result.verdict.reasons)
        with pytest.raises(profile.ProfileError, match="is of the same run as"):
            train([runs[0]], tmp_path / "m", holdout=[again])


def test_a_profile_of_one_context_is_enough(tmp_path):
    path = profile_writer.write(synthetic.profile(contexts=1), tmp_path / "one.pb.gz")
    result = train([path], tmp_path / "m", steps=100)
    assert result.shipped.weighted == 1
    assert train_report.text(result) and train_report.page(result)


def test_rule_p95_is_kept_in_the_file(runs, tmp_path):
    result = train(runs[:1], tmp_path / "m", rule="p95", steps=5)
    assert model_file.read(tmp_path / "m").rule == result.rule == "p95"
    assert result.to_json()["dataset"]["learned"]["contexts_by_class"]["mixed"] == 0


def test_the_page_is_whole_and_self_contained(trained):
    page = train_report.page(trained[0])
    assert page.count("<svg") == 2 and page.count("</svg>") == 2
    assert not re.search(r"""\b(src|href)\s*=\s*["'](?!#|data:)|url\((?!#)""", page)
    assert "<script" not in page
    for title in ("How right", "What is taken for what", "How long objects live"):
        assert title in page
    assert "helper" in page or not trained[0].wrong


def test_the_table_shows_model_and_both_baselines(trained):
    text = train_report.text(trained[0])
    for word in ("model", "exact context", "site", "weighted", "page group", "KiB"):
        assert word in text


def test_names_are_escaped_on_the_page(run_of, tmp_path):
    made = synthetic.profile(contexts=8)
    evil = profile_writer.message_of(made)
    index = list(evil.string_table).index(b"main")
    evil.string_table[index] = b"<script>alert(1)</script>"
    path = profile_writer.write_message(evil, tmp_path / "p.pb.gz")
    result = train([path], tmp_path / "m", steps=1)
    page = train_report.page(result)
    assert result.wrong and "&lt;script&gt;" in page and "<script>" not in page


def test_the_place_for_the_model_is_checked_before_the_work(runs, tmp_path):
    (tmp_path / "dir").mkdir()
    for out, cause in ((tmp_path / "dir", "is a folder"), (tmp_path / "no" / "m", "no folder")):
        with pytest.raises(model_file.ModelError, match=cause):
            train([tmp_path / "not even a profile"], out)


def test_a_recording_is_not_replaced_by_a_model(runs, tmp_path):
    """As by `train -o *.pb.gz`, which names the first of them as the model."""
    recorded, earlier = tmp_path / "a.pb.gz", tmp_path / "earlier.model"
    recorded.write_bytes(runs[0].read_bytes())
    with pytest.raises(model_file.ModelError, match="is no model"):
        train([recorded], recorded)
    assert recorded.read_bytes() == runs[0].read_bytes()
    for known in (b"", (contracts.folder() / "golden/model_v3.safetensors").read_bytes()):
        earlier.write_bytes(known)
        assert train(runs[:1], earlier, steps=5).model_bytes == earlier.stat().st_size


def test_the_place_for_the_page_is_checked_before_the_work(tmp_path, capsys):
    words = ["train", "no profile", "-o", str(tmp_path / "m"), "--report", str(tmp_path / "no/r")]
    assert cli.call(words) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_the_command_prints_json_and_writes_model_and_page(runs, tmp_path, capsys):
    model, page = tmp_path / "x.model", tmp_path / "x.html"
    arguments = ["train", str(runs[0]), "-o", str(model), "--report", str(page)]
    assert cli.call([*arguments, "--steps", "20", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["model"]["bytes"] == model.stat().st_size
    assert "learning" in printed.err.splitlines()[1]
    assert page.read_text().startswith("<!doctype html>")


def test_the_command_prints_a_table(runs, tmp_path, capsys):
    assert cli.call(["train", str(runs[0]), "-o", str(tmp_path / "m"), "--steps", "20"]) == 0
    assert "exact context" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "cause"), [(None, "cannot be read"), (b"", "is empty"), (b"text", "not a pprof")]
)
def test_the_command_refuses_in_one_line(tmp_path, capsys, content, cause):
    path = tmp_path / "p.pb.gz"
    if content is not None:
        path.write_bytes(content)
    assert cli.call(["train", str(path), "-o", str(tmp_path / "m")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert cause in errors[-1] and "llamalloc record -o p.pb.gz" in errors[-1]
    assert errors[-1].startswith(f"llamalloc: {path}: ")


@pytest.mark.parametrize("wrong", [["--rule", "median"], ["--seed", "-1"], ["--steps", "0"], []])
def test_wrong_use_is_refused_before_anything_is_read(tmp_path, wrong):
    output = ["-o", str(tmp_path / "m")] if wrong else []
    assert cli.call(["train", str(tmp_path / "none.pb.gz"), *output, *wrong]) == 2


def test_help_teaches_with_examples(capsys):
    assert cli.call(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert "llamalloc train -o redis.model p.pb.gz" in text and "--holdout" in text


def test_tokens_that_were_not_learned_are_unknown_while_measuring():
    data = dataset.build([synthetic.profile(contexts=4)])
    vocabulary = ["<unk>", "@", "main", "neverheard"]
    known = training._known_tokens(data, vocabulary)
    encoded = dataset.encode([["neverheard", "@", "main", "#16"]], known)
    assert encoded.ids[0, :2].tolist() == [2, 0]
    assert encoded.depths[0, 0] == 1


def test_a_later_profile_of_the_same_process_is_no_other_run(tmp_path):
    """It holds all of the earlier one: that would be measured on what it taught."""
    early = synthetic.profile(seed=1)
    grown = [
        dataclasses.replace(
            one,
            deallocated_objects=2 * one.deallocated_objects + 1,
            lifetimes={bin_: 2 * n for bin_, n in one.lifetimes.items()},
        )
        for one in early.contexts
    ]
    later = dataclasses.replace(
        early,
        time_ns=early.time_ns + 137_000,
        duration_ns=2 * early.duration_ns,
        contexts=tuple(grown),
    )
    other = synthetic.profile(seed=2)
    paths = [
        profile_writer.write(one, tmp_path / f"{name}.pb.gz")
        for name, one in (("early", early), ("later", later), ("other", other))
    ]
    for given in (paths[:2], paths[1::-1]):
        result = train(given, tmp_path / "m", steps=5)
        assert result.split == "contexts" and result.profiles == [str(paths[1])]
    assert train([paths[0], paths[2]], tmp_path / "m", steps=5).split == "last run"
    with pytest.raises(profile.ProfileError, match="is of the same run as"):
        train([paths[0]], tmp_path / "m", holdout=[paths[1]])

# SPDX-License-Identifier: Apache-2.0
"""Model files: golden bytes and probabilities, round trip, refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load, save
from support import golden_model

from llamalloc.formats import contracts, model_file
from llamalloc.formats.learned_state import Gate
from llamalloc.formats.model_file import ModelError
from llamalloc.learning import dataset, fit

GOLDEN = contracts.folder() / "golden" / "model_v3.safetensors"
CASES = json.loads(GOLDEN.with_name("model_v3.json").read_text())["cases"]


def equal(one, other):
    same = all(np.array_equal(a, b) for a, b in zip(one.weights, other.weights, strict=True))
    same &= one.vocabulary == other.vocabulary and one.rule == other.rule
    return same and one.gate == other.gate


def test_golden_file_holds_the_golden_model():
    assert equal(model_file.read(GOLDEN), golden_model.model())
    assert GOLDEN.stat().st_size < 100_000


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['tokens'])}-{case['ids'][0]}")
def test_golden_probabilities(case):
    model = model_file.read(GOLDEN)
    encoded = dataset.encode([case["tokens"]], model.vocabulary)
    known = [number for number in case["ids"] if number > 1]
    assert encoded.ids[0, : len(known)].tolist() == known
    found = fit.predict(model.weights, encoded)[0]
    np.testing.assert_allclose(found, case["probabilities"], atol=1e-5)


def test_golden_cases_cover_the_corners():
    assert any(len(case["tokens"]) == 1 for case in CASES)
    assert any(len(case["tokens"]) == 128 for case in CASES)
    assert any(0 in case["ids"] for case in CASES)
    assert len({int(np.argmax(case["probabilities"])) for case in CASES}) >= 4


def test_round_trip_and_nothing_left_behind(tmp_path):
    path = tmp_path / "x.model"
    assert model_file.write(golden_model.model(), path) == path.stat().st_size
    assert equal(model_file.read(path), golden_model.model())
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        model_file.write(golden_model.model(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.model"
    model_file.write(golden_model.model(), path)
    before = path.read_bytes()
    bad = golden_model.model()
    bad.weights.dense_bias[0] = np.nan
    with pytest.raises(ModelError, match="not finite"):
        model_file.write(bad, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def rewritten(tmp_path, *, tensors=None, drop=None, **metadata):
    stored = load(GOLDEN.read_bytes()) | (tensors or {})
    stored.pop(drop, None)
    header = {
        "format": "llamalloc-model",
        "version": "3",
        "classes": ",".join(row.name for row in contracts.lifetime_classes()),
        "rule": "tail",
    }
    path = tmp_path / "x.model"
    path.write_bytes(save(stored, header | metadata))
    return path


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ({"version": "2"}, "version is '2', not '3'; train it again"),
        ({"format": "other"}, "format is 'other'"),
        ({"classes": "a,b"}, "other lifetime classes"),
        ({"drop": "size_bias"}, "lacks the tensor size_bias"),
        ({"drop": "vocabulary"}, "no readable vocabulary"),
        ({"tensors": {"dense_bias": np.zeros(8, np.float32)}}, "dense_bias is float32"),
        ({"tensors": {"dense_bias": np.zeros(9, np.float64)}}, "dense_bias is float64"),
        ({"tensors": {"size_bias": np.full((64, 12), np.inf, np.float32)}}, "not finite"),
        ({"tensors": {"depth_scale": np.zeros((33, 8), np.float32)}}, "33 depths, not 1 to 32"),
        ({"tensors": {"vocabulary": np.frombuffer(b"a\nb", np.uint8)}}, "lacks <unk>"),
        ({"tensors": {"vocabulary": np.frombuffer(b"<unk>\na\n@", np.uint8)}}, "and @ in front"),
        ({"tensors": {"vocabulary": np.frombuffer(b"<unk>\n@\na\na", np.uint8)}}, "repeats itself"),
        ({"tensors": {"embedding": np.zeros(5, np.float32)}}, "embedding is float32"),
    ],
)
def test_refusals(tmp_path, how, cause):
    with pytest.raises(ModelError, match=r"x\.model: ") as caught:
        model_file.read(rewritten(tmp_path, **how))
    assert cause in str(caught.value)


@pytest.mark.parametrize("gate", ["", "1,0", "1,0,500,0,50,350,420,1650,0,0,0,0,0"])
def test_a_record_that_proves_nothing_counts_as_none(tmp_path, gate):
    assert model_file.read(rewritten(tmp_path, gate=gate)).gate == Gate()


@pytest.mark.parametrize("data", [b"", b"random bytes, not a model", GOLDEN.read_bytes()[:500]])
def test_not_a_model(tmp_path, data):
    path = tmp_path / "x.model"
    path.write_bytes(data)
    with pytest.raises(ModelError, match="not a model file"):
        model_file.read(path)


def test_a_rule_is_kept(tmp_path):
    path = tmp_path / "x.model"
    model_file.write(replace(golden_model.model(), rule="p95"), path)
    assert model_file.read(path).rule == "p95"

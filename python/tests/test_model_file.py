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
    with pytest.raises(ModelError, match="not a finite number"):
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


F32, U8, U32, U64 = np.float32, np.uint8, np.uint32, np.uint64
CLASSES = len(contracts.class_names())


def words(text):
    return {"vocabulary": np.frombuffer(text, U8)}


# The causes stand in src/predict/model_file_test.cc, too.
@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ({"version": "2"}, "version 2, this llamalloc reads 3; train again"),
        ({"version": "1\n0"}, "version 1?0, this llamalloc reads 3; train again"),
        ({"format": "other"}, "a safetensors file, but not a llamalloc-model"),
        ({"classes": "a,b"}, "its lifetime classes (a,b) differ from ours; train a new model"),
        ({"programs": "p" * 512}, "malformed JSON header"),
        ({"programs": "a\0b"}, "malformed JSON header"),
        ({"k" * 64: "v"}, "malformed JSON header"),
        ({"drop": "size_bias"}, "tensor `size_bias` is missing"),
        ({"drop": "vocabulary"}, "tensor `vocabulary` is missing"),
        ({"tensors": {"extra\n": np.zeros(1, F32)}}, "unknown tensor `extra?`"),
        ({"tensors": {"dense_bias": np.zeros(8, F32)}}, "tensor `dense_bias` is 8 x 1, not 9 x 1"),
        (
            {"tensors": {"dense_bias": np.zeros(9, np.float64)}},
            "tensor `dense_bias` has type F64, not F32",
        ),
        (
            {"tensors": {"embedding": np.zeros(5, F32)}},
            "tensor `embedding` has 1 dimensions, not 2",
        ),
        (
            {"tensors": {"dense_bias": np.zeros((9, 1), F32)}},
            "tensor `dense_bias` has 2 dimensions, not 1",
        ),
        (
            {"tensors": {"builds": np.zeros((1, 1), U64)}},
            "tensor `builds` has 2 dimensions, not 1",
        ),
        (
            {"tensors": {"size_bias": np.full((64, 12), np.inf, F32)}},
            "tensor `size_bias`: element 0 is not a finite number",
        ),
        (
            {"tensors": {"network_trust": np.array([0, 1, np.nan, 1], F32)}},
            "tensor `network_trust`: element 2 is not a finite number",
        ),
        (
            {"tensors": {"network_trust": np.array([0, 1, 0.5, 1.5], F32)}},
            "tensor `network_trust`: element 3 is neither a share nor -1",
        ),
        (
            {"tensors": {"depth_scale": np.zeros((33, 8), F32)}},
            "depth width 33, the limits are 1 and 32",
        ),
        (
            {"tensors": {"depth_scale": np.zeros((4, 0), F32)}},
            "embedding width 0, the limits are 1 and 512",
        ),
        (
            {"tensors": {"dense_kernel": np.zeros((513, CLASSES), F32)}},
            "hidden width 513, the limits are 1 and 512",
        ),
        ({"tensors": words(b"a\nb")}, "vocabulary: line 0 is not <unk>"),
        ({"tensors": words(b"<unk>\na\n@")}, "vocabulary: line 1 is not @"),
        ({"tensors": words(b"<unk>")}, "vocabulary: line 1 is not @"),
        ({"tensors": words(b"<unk>\n@\na\n@")}, "vocabulary: lines 1 and 3 are equal"),
        ({"tensors": words(b"<unk>\n@\n\na")}, "vocabulary: line 2 is empty"),
        ({"tensors": words(b"<unk>\n@\n\xff")}, "vocabulary: it is not UTF-8"),
        ({"tensors": {"builds": np.ones(65, U64)}}, "more than 64 builds"),
        (
            {"tensors": {"exact_keys": np.array([1, 2, 2, 3], U64)}},
            "tensor `exact_keys`: element 2 does not ascend",
        ),
        (
            {"tensors": {"exact_answers": np.array([0, 9, 0x7F, 0x80], U8)}},
            "tensor `exact_answers`: element 1 is no answer",
        ),
        (
            {"tensors": {"name_answers": np.array([[0, 0x7F]] * 7, U8)}},
            "tensor `name_answers`: element 1 is no answer",
        ),
        (
            {"tensors": {"name_samples": np.zeros(1, U32)}},
            "tensor `name_samples` is 1 x 1, not 7 x 1",
        ),
        (
            {"tensors": {"name_answers": np.zeros((7, 1), U8)}},
            "tensor `name_answers` is 7 x 1, not 7 x 2",
        ),
    ],
)
def test_refusals(tmp_path, how, cause):
    with pytest.raises(ModelError) as caught:
        model_file.read(rewritten(tmp_path, **how))
    assert str(caught.value) == f"{tmp_path / 'x.model'}: {cause}"


def read_with(tmp_path, old, new):
    """The golden model with `old` in its header replaced once, padded to the old alignment."""
    data = GOLDEN.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = data[8:end].decode()
    assert old in header
    header = header.replace(old, new, 1)
    header += " " * (-len(header) % 8)
    path = tmp_path / "x.model"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + data[end:])
    return model_file.read(path)


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("[88,124]", "[124,88]", "tensor `dense_bias`: bad data_offsets"),
        ("[88,124]", "[88]", "tensor `dense_bias`: bad data_offsets"),
        ("[88,124]", "[84,120]", "tensors `name_keys` and `dense_bias` overlap"),
        ("[88,124]", "[87,123]", "tensor `dense_bias` is not aligned to 4 bytes"),
        ('"shape":[9]', '"shape":[8]', "its shape needs 32 bytes, data_offsets give 36"),
        ('"shape":[9]', '"shape":[4611686018427387904]', "its shape is too large"),
        ('"shape":[9]', '"shape":[18446744073709551616]', "malformed JSON header"),
        ('"shape":[9]', '"shape":[-9]', "malformed JSON header"),
        ('"shape":[9]', '"shape":[9.0]', "malformed JSON header"),
        ('"shape":[9]', '"shape":[true]', "malformed JSON header"),
        ('"shape":[9]', '"shape":{"9":9}', "malformed JSON header"),
        ('"shape":[9]', '"shap":[9]', "tensor `dense_bias`: unexpected member `shap`"),
        ('"shape":[9]', '"dtype":"F32"', "malformed JSON header"),
        ('"rule":"tail"', '"rule":1', "malformed JSON header"),
        ('"rule":"tail"', '"notes":"\\ud800"', "malformed JSON header"),
        ('"rule":"tail"', '"format":""', "metadata `format` twice"),
        ('"builds":', '"__metadata__":{},"builds":', "`__metadata__` twice"),
        ('"dense_bias":', '"builds":', "tensor `builds` twice"),
        ('{"__metadata__"', '{"a":' + "[" * 100_000 + ',"__metadata__"', "malformed JSON header"),
    ],
)
def test_headers_that_are_refused(tmp_path, old, new, cause):
    with pytest.raises(ModelError) as caught:
        read_with(tmp_path, old, new)
    assert str(caught.value).endswith(cause)


@pytest.mark.parametrize("length", [1 << 62, 1 << 63, (1 << 64) - 1])
def test_a_shape_that_no_array_has(tmp_path, length):
    new = f'[716,716],"dtype":"F32","shape":[0,{length}]'
    with pytest.raises(ModelError) as caught:
        read_with(tmp_path, '[716,1996],"dtype":"F32","shape":[40,8]', new)
    assert str(caught.value).endswith("tensor `embedding`: its shape is too large")


def test_a_changed_bit_is_noticed(tmp_path):
    path = tmp_path / "x.model"
    model_file.write(golden_model.model(), path)
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for at in (start, (start + len(data)) // 2, len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ModelError, match="its checksum is wrong: the file is damaged"):
            model_file.read(path)


def test_a_file_without_a_checksum_is_read(tmp_path):
    assert equal(read_with(tmp_path, '"crc32"', '"crc00"'), golden_model.model())


def test_foreign_metadata_is_no_fault(tmp_path):
    assert equal(
        read_with(tmp_path, '"rule"', '"notes":"' + "n" * 100_000 + '","rule"'),
        golden_model.model(),
    )


@pytest.mark.parametrize("gate", ["", "1,0", "1,0,500,0,50,350,420,1650,0,0,0,0,0"])
def test_a_record_that_proves_nothing_counts_as_none(tmp_path, gate):
    assert model_file.read(rewritten(tmp_path, gate=gate)).gate == Gate()


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "not a safetensors file (0 bytes long)"),
        (b"random bytes, not a model", "not a safetensors file"),
        (GOLDEN.read_bytes()[:500], "truncated: header says "),
        (GOLDEN.read_bytes()[:-1], "truncated: header says "),
        (GOLDEN.read_bytes() + b"xy", "2 bytes after the last tensor"),
    ],
)
def test_not_a_model(tmp_path, data, cause):
    path = tmp_path / "x.model"
    path.write_bytes(data)
    with pytest.raises(ModelError) as caught:
        model_file.read(path)
    assert str(caught.value).startswith(f"{path}: {cause}")


def test_what_is_no_file_is_told(tmp_path):
    with pytest.raises(ModelError, match="No such file or directory"):
        model_file.read(tmp_path / "none")
    with pytest.raises(ModelError, match="not a regular file"):
        model_file.read(tmp_path)


def test_a_rule_is_kept(tmp_path):
    path = tmp_path / "x.model"
    model_file.write(replace(golden_model.model(), rule="p95"), path)
    assert model_file.read(path).rule == "p95"

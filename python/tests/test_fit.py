# SPDX-License-Identifier: Apache-2.0
"""Training learns, repeats itself by seed, and keeps the best it saw."""

import numpy as np
import pytest
from support import synthetic

from llamalloc.formats import tokens
from llamalloc.learning import bag_of_frames, dataset, fit, labels

DATA = dataset.build([synthetic.profile(contexts=48)])
VOCABULARY = dataset.vocabulary(DATA.tokens())
ENCODED = dataset.encode(DATA.tokens(), VOCABULARY)


def fresh(seed=0):
    classes = len(labels.CLASS_NAMES)
    return bag_of_frames.initial(seed, len(VOCABULARY), classes, embedding=16, hidden=24)


def trained(seed=0, steps=100, **how):
    return fit.fit(fresh(), ENCODED, DATA.classes, DATA.weights, seed=seed, steps=steps, **how)


def test_it_learns_every_context_and_stops_early():
    result = trained(steps=1500)
    assert result.weighted >= fit.GOOD_WEIGHTED
    assert result.unweighted >= fit.GOOD_UNWEIGHTED
    assert result.steps < 1500


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    one, same, other = trained(seed=5), trained(seed=5), trained(seed=6)
    assert all(np.array_equal(a, b) for a, b in zip(one.weights, same.weights, strict=True))
    assert not np.array_equal(one.weights.embedding, other.weights.embedding)


def test_the_best_weights_are_returned_with_their_own_accuracy():
    seen = []
    result = trained(steps=75, report=lambda step, loss, right: seen.append((step, right)))
    assert [step for step, _ in seen] == [50, 75]
    right = fit.predict(result.weights, ENCODED).argmax(axis=1) == DATA.classes
    assert float(DATA.weights[right].sum() / DATA.weights.sum()) == result.weighted


def test_predictions_do_not_depend_on_company():
    weights = fresh()
    all_at_once = fit.predict(weights, ENCODED)
    for i in (0, 17, 47):
        alone = dataset.encode([DATA.tokens()[i]], VOCABULARY)
        np.testing.assert_allclose(fit.predict(weights, alone)[0], all_at_once[i], atol=1e-6)


def test_nothing_to_predict():
    nothing = dataset.encode([], VOCABULARY)
    assert fit.predict(fresh(), nothing).shape == (0, len(labels.CLASS_NAMES))


def test_batches_are_half_by_weight_and_half_uniform():
    encoded = dataset.encode([["x", "#16"]] * 4, ["<unk>", "@", "x"])
    sampler = fit._Sampler(encoded, np.array([97.0, 1, 1, 1]), seed=0)
    rows = np.concatenate([sampler.batch()[0] for _ in range(400)])
    shares = np.bincount(rows, minlength=4) / len(rows)
    assert shares == pytest.approx([0.61, 0.13, 0.13, 0.13], abs=0.02)


def moved_frames():
    """Many draws of a context of two frames: what its three tokens count, and their depths."""
    encoded = dataset.encode([["x", "y", "@", "y", "#16"]], ["<unk>", "@", "x", "y"])
    sampler = fit._Sampler(encoded, np.ones(1), seed=0)
    batches = [sampler.batch()[1] for _ in range(100)]
    return (np.concatenate([b.counts[:, :3] for b in batches]) > 0,
            np.concatenate([b.depths[:, :3] for b in batches]))  # fmt: skip


def test_whole_frames_are_left_out_at_random():
    there, _ = moved_frames()
    assert np.array_equal(there[:, 0], there[:, 1])
    assert (~there).mean(axis=0) == pytest.approx([fit.FRAME_DROPOUT] * 3, abs=0.02)
    assert np.corrcoef(there[:, 0], there[:, 2])[0, 1] == pytest.approx(0, abs=0.05)


def test_what_lies_further_out_moves_by_the_frames_left_out_and_put_in():
    there, depths = moved_frames()
    assert np.array_equal(depths[:, 0], depths[:, 1])
    put_in = depths[:, 2] - depths[:, 0] - there[:, 0]
    assert set(put_in) == {0, 1}
    assert put_in.mean() == pytest.approx(fit.FRAME_INSERTION, abs=0.02)
    assert depths[:, 0].mean() == pytest.approx(fit.FRAME_INSERTION, abs=0.02)


def test_the_deepest_frames_stay_within_the_limit():
    frames = ["x", "@"] * (tokens.MAX_FRAMES - 1)
    encoded = dataset.encode([[*frames, "x", "#16"]], ["<unk>", "@", "x"])
    _, batch = fit._Sampler(encoded, np.ones(1), seed=0).batch()
    assert batch.depths.max() < tokens.MAX_FRAMES


def test_weights_that_got_worse_again_are_not_kept(monkeypatch):
    accuracy = {0: 0.1, 50: 0.9, 100: 0.5}
    monkeypatch.setattr(
        fit, "_measured", lambda w, *_: fit.Fit(w, _[-1], accuracy[_[-1]], accuracy[_[-1]])
    )
    assert trained(steps=100).steps == 50

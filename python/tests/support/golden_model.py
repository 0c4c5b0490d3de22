# SPDX-License-Identifier: Apache-2.0
"""The model behind contracts/golden/model_v1.*: small, random, decided in its answers."""

import jax.numpy as jnp
import numpy as np

from llamalloc.formats.model_file import Model
from llamalloc.learning import dataset, lstm
from llamalloc.learning.labels import CLASS_NAMES
from llamalloc.learning.lstm import Weights

EMBEDDING, HIDDEN = 8, 12
_WORDS = "zmalloc sds newlen create raw string object process buffer call main db add dict set list"
_WORDS += " push node reply command accept conn read query event loop ae client vector m realloc"
_WORDS += " insert ?redis-server ?redis-server+0x1a2b0 ?libc.so.6 ? @ #16 #32 #1024 #65536 a9 x"


def model() -> Model:
    """Weights from numpy's generator, the same on every machine."""
    words = ["<unk>", *_WORDS.split()]
    random = np.random.default_rng(20)
    c, h, e = len(CLASS_NAMES), HIDDEN, EMBEDDING
    shapes = Weights((len(words), e), (e + h, 4 * h), (4 * h,), (h, c), (c,))
    scales = Weights(1.0, 0.7, 0.5, 2.0, 0.3)
    arrays = [
        (scale * random.standard_normal(shape)).astype(np.float32)
        for scale, shape in zip(scales, shapes, strict=True)
    ]
    return Model(tuple(words), Weights(*arrays), "tail")


def cases(golden: Model) -> list[dict]:
    """Token sequences, their ids and the class probabilities that JAX gives."""
    random = np.random.default_rng(21)
    known = golden.vocabulary[1:]
    sequences = [
        ["#16"],
        ["#48"],
        ["zmalloc", "@", "sds", "newlen", "@", "main", "#1024"],
        ["?redis-server", "?redis-server+0x1a2b0", "@", "?", "#32"],
        ["unheard", "of", "@", "altogether", "#99"],
        ["<unk>", "@", "main", "#16"],
        ["@"] * 31 + ["#65536"],
        *([str(random.choice(known)) for _ in range(n)] for n in (2, 17, 40, 127, 128)),
    ]
    encoded = dataset.encode(sequences, golden.vocabulary)
    weights = Weights(*map(jnp.asarray, golden.weights))
    results = np.asarray(lstm.probabilities(weights, encoded.ids, encoded.lengths))
    return [
        {"tokens": sequence, "ids": ids[: len(sequence)].tolist(), "probabilities": row.tolist()}
        for sequence, ids, row in zip(sequences, encoded.ids, results, strict=True)
    ]

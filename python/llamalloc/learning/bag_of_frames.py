# SPDX-License-Identifier: Apache-2.0
"""The network, a bag of frames, in JAX; the reference for src/predict/bag_of_frames.cc.

    frame d of known tokens x_1 .. x_n      v_d = (embedding[x_1] + ... + embedding[x_n]) / sqrt(n)
    state = sum over d of depth_scale[d] * v_d                                       [E]
    hidden = max(0, state hidden_kernel + size_bias[size row])                       [H]
    softmax(hidden dense_kernel + dense_bias)                                        [C]

`*` by element (contracts/model_format.md, The network). What each token counts, 1 / sqrt(n), comes
with the data, and is 0 for padding. Training leaves out a frame by the same way.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from llamalloc.formats.model_file import SIZE_ROWS, Weights

EMBEDDING = 32
DEPTHS = 16
HIDDEN = 64
_SCALE = 0.3  # of vectors
_OUTPUT_SCALE = 0.02


def initial(
    seed: int, vocabulary: int, classes: int, embedding: int = EMBEDDING, hidden: int = HIDDEN
) -> Weights:
    """Random weights; at the start a frame counts 1 / sqrt(1 + depth).

    numpy draws them: JAX would compile for seconds to do the same once.
    """
    random = np.random.default_rng(seed)

    def drawn(shape: tuple[int, int], scale: float) -> np.ndarray:
        return random.standard_normal(shape, np.float32) * np.float32(scale)

    depths = (1 + np.arange(DEPTHS, dtype=np.float32)) ** -0.5
    weights = Weights(
        embedding=drawn((vocabulary, embedding), _SCALE),
        depth_scale=np.repeat(depths[:, None], embedding, axis=1),
        hidden_kernel=drawn((embedding, hidden), embedding**-0.5),
        size_bias=drawn((SIZE_ROWS, hidden), _SCALE),
        dense_kernel=drawn((hidden, classes), _OUTPUT_SCALE),
        dense_bias=np.zeros(classes, np.float32),
    )
    return Weights(*map(jnp.asarray, weights))


def logits(weights: Weights, ids: Array, depths: Array, counts: Array, sizes: Array) -> Array:
    """Unnormalised log probabilities [B, C].

    Of each token [B, T]: ids int32, depths int32, what it counts float32; size rows [B] int32.
    """
    counts = jnp.where(depths < weights.depth_scale.shape[0], counts, 0)
    scales = weights.depth_scale[depths] * counts[..., None]
    state = (weights.embedding[ids] * scales).sum(axis=1)
    hidden = jax.nn.relu(state @ weights.hidden_kernel + weights.size_bias[sizes])
    return hidden @ weights.dense_kernel + weights.dense_bias


def probabilities(
    weights: Weights, ids: Array, depths: Array, counts: Array, sizes: Array
) -> Array:
    """Class probabilities [B, C], each row adding up to 1."""
    return jax.nn.softmax(logits(weights, ids, depths, counts, sizes))

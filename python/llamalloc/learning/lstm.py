# SPDX-License-Identifier: Apache-2.0
"""The paper's model (papers/000, section 5.2) in JAX; the reference for src/predict.

    token ids x_1 .. x_n            e = embedding[x]                            [E]
    h = c = 0                       i, f, g, o = [e, h] lstm_kernel + lstm_bias [4 H]
    c = s(f) c + s(i) tanh(g)       h = s(o) tanh(c)                            [H]
    at the end                      softmax(h dense_kernel + dense_bias)        [C]

Sequences of a batch are padded on the right; a padded step leaves h and c as they are, so the
result is that of the sequence alone (contracts/model_format.md, Inference).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from llamalloc.formats.model_file import Weights

EMBEDDING = 32
HIDDEN = 64
_FORGET_BIAS = 1.0
_EMBEDDING_SCALE = np.float32(0.5)


def initial(
    seed: int, vocabulary: int, classes: int, embedding: int = EMBEDDING, hidden: int = HIDDEN
) -> Weights:
    """Random weights of standard deviation 1 / sqrt(fan in); forget gates open at the start.

    numpy draws them: JAX would compile for seconds to do the same once.
    """
    random = np.random.default_rng(seed)
    bias = np.zeros(4 * hidden, np.float32)
    bias[hidden : 2 * hidden] = _FORGET_BIAS
    weights = Weights(
        embedding=_EMBEDDING_SCALE * random.standard_normal((vocabulary, embedding), np.float32),
        lstm_kernel=_scaled(random, (embedding + hidden, 4 * hidden)),
        lstm_bias=bias,
        dense_kernel=_scaled(random, (hidden, classes)),
        dense_bias=np.zeros(classes, np.float32),
    )
    return Weights(*map(jnp.asarray, weights))


def _scaled(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return random.standard_normal(shape, np.float32) * np.float32(shape[0] ** -0.5)


def logits(weights: Weights, ids: Array, lengths: Array) -> Array:
    """Unnormalised log probabilities [B, C] of token ids [B, T] int32 and lengths [B] int32."""
    embedding_size = weights.embedding.shape[1]
    kernel_x, kernel_h = jnp.split(weights.lstm_kernel, [embedding_size])
    # One row a token, made once: cheaper than one product for every position of the batch.
    token_table = weights.embedding @ kernel_x + weights.lstm_bias
    inputs = token_table[ids.T]
    running = (jnp.arange(ids.shape[1], dtype=lengths.dtype)[:, None] < lengths)[..., None]

    def step(state: tuple[Array, Array], at: tuple[Array, Array]):
        h, c = state
        z, is_running = at
        i, f, g, o = jnp.split(z + h @ kernel_h, 4, axis=1)
        c_next = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h_next = jax.nn.sigmoid(o) * jnp.tanh(c_next)
        return (jnp.where(is_running, h_next, h), jnp.where(is_running, c_next, c)), None

    zeros = jnp.zeros((ids.shape[0], weights.hidden), jnp.float32)
    (h, _), _ = jax.lax.scan(step, (zeros, zeros), (inputs, running))
    return h @ weights.dense_kernel + weights.dense_bias


def probabilities(weights: Weights, ids: Array, lengths: Array) -> Array:
    """Class probabilities [B, C], each row adding up to 1."""
    return jax.nn.softmax(logits(weights, ids, lengths))

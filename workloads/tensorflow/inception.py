# SPDX-License-Identifier: Apache-2.0
"""InceptionV3 with random weights on random images: inception.py BATCHES SEED"""

import sys

import numpy as np
import tensorflow as tf


def main(batches: int, seed: int) -> None:
    """Batches of changing size, as a server gets them."""
    tf.random.set_seed(seed)
    random = np.random.default_rng(seed)
    model = tf.keras.applications.InceptionV3(weights=None)
    infer = tf.function(lambda images: model(images, training=False), reduce_retracing=True)
    for _ in range(batches):
        size = int(random.choice([1, 1, 1, 2, 4, 8, 16]))
        images = tf.constant(random.random((size, 299, 299, 3), dtype=np.float32))
        best = tf.argmax(infer(images), axis=1).numpy()
    print("last classes", best)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

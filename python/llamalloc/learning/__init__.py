# SPDX-License-Identifier: Apache-2.0
"""From profiles to a model: survival, labels, dataset, the network, training, and its accuracy."""

# SPDX-License-Identifier: Apache-2.0
"""From profiles to a model: survival, labels, dataset, the LSTM, training, and its accuracy."""

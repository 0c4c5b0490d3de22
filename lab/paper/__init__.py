# SPDX-License-Identifier: Apache-2.0
"""The tables and figures of ASPLOS 2020, ours beside the paper's."""

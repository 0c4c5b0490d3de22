# SPDX-License-Identifier: Apache-2.0
"""One module a suite; its SUITE is what run.py finds, by the module's name with - for _."""

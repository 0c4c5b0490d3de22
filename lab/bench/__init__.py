# SPDX-License-Identifier: Apache-2.0
"""The benchmark: rows x allocators, interleaved, medians and spreads beside the best peer.

    allocators, peers ---> measure (rows) and programs ---> results ---> table, page

`python -m lab.bench` is what `make bench` calls; `instructions` counts under callgrind.
"""

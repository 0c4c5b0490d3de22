# SPDX-License-Identifier: Apache-2.0
"""The demo: one unmodified redis-server on several allocators, measured through the whole run.

    plan ---> measure (server + benchmark + sampler) ---> results ---> table, pictures, page

`plan` and `allocators` say what runs, `measure` runs it, everything after reads only `results`.
"""

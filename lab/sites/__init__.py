# SPDX-License-Identifier: Apache-2.0
"""Section 9.6 of ASPLOS 2020 for each way in which a program tells two allocation sites apart.

ways -> build (compiles, checks) -> process (one run) -> measure -> results -> table
"""

# SPDX-License-Identifier: Apache-2.0
"""Recipes of real programs: what to install, how to start each, its load, and how it ends.

    recipe (one file a program) ---> runner: prepare, start under a launcher, load, measure, stop

A recipe knows nothing of allocators; the runner nothing of programs.
"""

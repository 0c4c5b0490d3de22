# SPDX-License-Identifier: Apache-2.0
"""Readers and writers of what C++ and Python share: tables, profiles, model files, ELF, units.

They know files and nothing else: no process is started here, and nothing is learned.
"""

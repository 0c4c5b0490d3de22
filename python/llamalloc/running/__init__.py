# SPDX-License-Identifier: Apache-2.0
"""Processes: start one under the library, talk to it, measure it, and call the C++ tools."""

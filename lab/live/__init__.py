# SPDX-License-Identifier: Apache-2.0
"""What it costs to look at a process that runs, measured with real clients (docs/http.md)."""

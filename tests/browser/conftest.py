# SPDX-License-Identifier: Apache-2.0
"""These tests need Chromium, and say at the end of a run when it is missing."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import chromium

CURE = "install it with: apt-get install chromium"


def pytest_terminal_summary(terminalreporter):
    if not chromium.find():
        terminalreporter.write_line(f"SKIPPED tests/browser: no Chromium; {CURE}")

# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of this folder use the helpers of tests/servers, and lab/."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "servers"), str(HERE.parent)]

# SPDX-License-Identifier: Apache-2.0
"""The system's python3: threads, processes, json, ctypes; with its own pools and without."""

from pathlib import Path

import pytest
from preload import run

SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize("allocator", ["default", "malloc", "malloc_debug"])
def test_busy_script(allocator):
    script = Path(__file__).parent / "busy_script.py"
    done = run([SYSTEM_PYTHON, script], seconds=90, env={"PYTHONMALLOC": allocator})
    assert done.stdout == "busy_script: all sums right\n"

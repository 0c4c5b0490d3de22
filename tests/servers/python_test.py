# SPDX-License-Identifier: Apache-2.0
"""The system's python3: threads, processes, json, ctypes; with its own pools and without."""

import subprocess
from pathlib import Path

import pytest
from preload import environment, run

from llamalloc.formats import learned_state

SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize("allocator", ["default", "malloc", "malloc_debug"])
def test_busy_script(allocator):
    script = Path(__file__).parent / "busy_script.py"
    done = run([SYSTEM_PYTHON, script], seconds=90, env={"PYTHONMALLOC": allocator})
    assert done.stdout == "busy_script: all sums right\n"


def test_a_program_that_changes_its_folder_leaves_its_files_where_it_began(tmp_path):
    """As daemons do. What is read at the start has to be what is written at the end."""
    conf = "learn:state,profile:heap.pb.gz,stats:stats.json,sample_interval:4KiB"
    code = (
        "import os; os.mkdir('run'); os.chdir('run'); rows = [bytearray(900) for _ in range(9999)]"
    )
    for runs in (1, 2):
        words = [SYSTEM_PYTHON, "-c", code.replace("run'", f"run{runs}'")]
        done = subprocess.run(words, env=environment(conf), cwd=tmp_path, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
        assert not list((tmp_path / f"run{runs}").iterdir())
        assert learned_state.read(tmp_path / "state").runs == runs
    assert {"heap.pb.gz", "stats.json"} < {path.name for path in tmp_path.iterdir()}

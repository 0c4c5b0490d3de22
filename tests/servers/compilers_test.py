# SPDX-License-Identifier: Apache-2.0
"""g++ and clang under the library; the programs that they make run under it too."""

import subprocess
from pathlib import Path

import pytest
from preload import run

SOURCE = Path(__file__).parent / "word_count.cc"


@pytest.mark.parametrize(("compiler", "level"), [("g++", "-O2"), ("clang++-19", "-O1")])
def test_compile_and_run(compiler, level, tmp_path):
    program = tmp_path / "word_count"
    run([compiler, "-std=c++20", level, "-pthread", SOURCE, "-o", program], seconds=90)
    done = run([program], seconds=30)
    assert done.stdout == run(["/usr/bin/python3", "-c", EXPECTED], seconds=30).stdout


# The same count, in another language: what word_count.cc must print.
EXPECTED = """
state, words = 1, {}
for _ in range(200000):
    state = (state * 1103515245 + 12345) % 2**31
    word = f"w{(state >> 16) % 5000}"
    words[word] = words.get(word, 0) + 1
for word in sorted(words):
    if word.endswith("99"):
        print(f"{word} {words[word]}")
"""


def test_same_object_file_as_without_the_library(tmp_path):
    """A compiler whose memory is disturbed may not crash but emit something else."""
    source = Path(__file__).parent / "thread_churn.cc"
    command = ["g++", "-std=c++20", "-O2", "-c", source, "-o"]
    run([*command, tmp_path / "with.o"], seconds=90)
    subprocess.run([*command, tmp_path / "without.o"], check=True, timeout=90)
    assert (tmp_path / "with.o").read_bytes() == (tmp_path / "without.o").read_bytes()

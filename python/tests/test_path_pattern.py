# SPDX-License-Identifier: Apache-2.0
"""%p, %e and %t in paths, as the library and the command understand them."""

import subprocess
import sys
from pathlib import Path

import pytest

from llamalloc.formats import path_pattern, profile

LLAMALLOC = [sys.executable, "-m", "llamalloc.cli"]


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LLAMALLOC, *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )


def test_words_are_replaced_and_unknown_ones_told() -> None:
    assert path_pattern.filled("/%e.%p.%t.100%%", 7, "redis", 1700) == "/redis.7.1700.100%"
    for faulty in ("%q", "a%", "%%%"):
        with pytest.raises(ValueError, match="%p is the PID"):
            path_pattern.filled(faulty, 7, "redis", 1700)
    assert path_pattern.is_pattern("a.%p") and path_pattern.is_pattern("%e%t")
    assert not path_pattern.is_pattern("%%p.%e")
    path = "/100%/%p"
    assert path_pattern.filled(path_pattern.literal(path), 7, "redis", 1700) == path


def test_recorded_files_have_the_names_that_their_paths_say(tmp_path: Path) -> None:
    script = "print([b'x' * 5000 for _ in range(1000)][0][0])"
    done = command(
        *("record", "--interval", "4KiB", "--stats", tmp_path / "%e.100%%.json"),
        *("-o", tmp_path / "100%%.%p.pb.gz", "--", sys.executable, "-c", script),
    )
    assert done.returncode == 0, done.stderr
    (recorded,) = tmp_path.glob("*.gz")
    assert recorded.name.startswith("100%.") and str(recorded) in done.stderr
    assert profile.read(recorded).contexts
    program = Path(sys.executable).resolve().name
    assert [f.name for f in tmp_path.glob("*.json")] == [f"{program}.100%.json"]


def test_traces_too(tmp_path: Path) -> None:
    done = command("trace", "-o", tmp_path / "%e.%p%%.trace", "--", "sort", "/dev/null")
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.iterdir()
    assert file.name.startswith("sort.") and file.name.endswith("%.trace")


@pytest.mark.parametrize("words", [
    ("run", "--stats", "{}/%q"), ("run", "--learn", "{}/%q"), ("run", "--conf-file", "{}/%q"),
    ("record", "-o", "{}/%q"), ("trace", "-o", "{}/%q"),
])  # fmt: skip
def test_an_unknown_letter_is_wrong_use(words: tuple[str, ...], tmp_path: Path) -> None:
    done = command(*(word.format(tmp_path) for word in words), "--", "true")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "%p is the PID" in done.stderr, done.stderr


@pytest.mark.parametrize("words", [
    ("run", "--control", "on"), ("run", "--stats", "OFF"), ("run", "--learn", "auto"),
    ("record", "-o", "none"),
])  # fmt: skip
def test_a_word_that_turns_something_on_is_no_path(words: tuple[str, ...]) -> None:
    done = command(*words, "--", "true")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "expected a path" in done.stderr, done.stderr

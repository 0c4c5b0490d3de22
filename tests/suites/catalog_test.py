# SPDX-License-Identifier: Apache-2.0
"""What is read in the output of Redis's, SQLite's and PostgreSQL's runners; builds."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from catalog import git, postgresql, redis, sqlite
from harness import build, debian
from harness.suite import FAILED, PASSED, SKIPPED, Output, SuiteError

REDIS = """\
Testing unit/dump
\x1b[0;32;49m[ok]\x1b[0m: COPY basic usage for list (1 ms)
[ok]: Regression (issue #1) (12 ms)
[\x1b[0;31;49merr\x1b[0m]: RESTORE fails in tests/unit/dump.tcl
Expected '1' to be equal to '2'
[ok]: twice (1 ms)
[err]: twice in tests/unit/type/list.tcl
[ok]: twice (1 ms)
[ok]: PSYNC2: Set #4 to replicate from #1 (4 ms)
[ok]: PSYNC2: cluster is consistent after load (x = 17166) (4 ms)
[ignore]: huge: large memory flag not provided
[ready]: 17
[exception]: Executing test client: ERR unknown.
"""


def said(text: str) -> Output:
    return Output(0, text, Path("/nonexistent"))


def test_redis_names_tests_without_times_and_files() -> None:
    assert redis.parse(said(REDIS)) == {
        "COPY basic usage for list": PASSED,
        "Regression (issue #1)": PASSED,
        "RESTORE fails": FAILED,
        "twice": FAILED,
        "PSYNC2: Set #N to replicate from #N": PASSED,
        "PSYNC2: cluster is consistent after load (x = N)": PASSED,
        "huge: large memory flag not provided": SKIPPED,
        "Executing test client: ERR unknown.": FAILED,
    }


def test_a_redis_unit_that_runs_alone_has_names_of_its_own() -> None:
    assert redis.parse_alone(said("[ok]: a (1 ms)\n")) == {"integration/replication: a": PASSED}


def test_sqlite_has_a_test_for_each_file_and_one_for_leaks() -> None:
    lines = "nolookaside-a.test... Ok (5ms)\nnolookaside-b.test... FAILED - 1 errors of 9 tests\n"
    found = {"nolookaside-a.test": PASSED, "nolookaside-b.test": FAILED}
    clean = "No leaks - all allocations freed.\n"
    assert sqlite.parse(said(lines + clean)) == found | {"quick: leaks": PASSED}
    assert sqlite.parse(said(lines)) == found | {"quick: leaks": FAILED}
    assert sqlite.parse(said("m.test... Ok\n" + clean))["memory: leaks"] == PASSED


def test_postgresql_reads_tests_alone_and_in_groups() -> None:
    text = """\
============== running regression test queries        ==============
test test_setup                   ... ok          500 ms
parallel group (2 tests):  char boolean
     boolean                      ... ok           90 ms
     char                         ... FAILED (test process exited with exit code 2)       80 ms
"""
    found = {"test_setup": PASSED, "boolean": PASSED, "char": FAILED}
    assert postgresql.parse(said(text)) == found


def test_git_reads_what_its_scripts_count() -> None:
    text = """\
ok 1 - plain
not ok 2 - broken
ok 3 # skip needs a terminal (missing TTY)
not ok 4 - known # todo known breakage
1..4
"""
    assert git.parser("t0000-basic.sh")(said(text)) == {
        "t0000-basic.sh 1: plain": PASSED,
        "t0000-basic.sh 2: broken": FAILED,
        "t0000-basic.sh 3: ": SKIPPED,
        "t0000-basic.sh 4: known": SKIPPED,
    }


def test_a_source_tree_can_be_a_part_of_a_path_variable() -> None:
    assert debian.source_tree("git", "1:2.39.5-0+deb12u3", Path("s")) == Path(
        "s/git-2.39.5-0+deb12u3"
    )
    assert debian.source_tree("sqlite3", "3.40.1-2", Path("s")) == Path("s/sqlite3-3.40.1-2")


def test_a_build_runs_once(tmp_path: Path) -> None:
    for _ in range(2):
        build.once(tmp_path, "b", [["sh", "-c", "echo x >> made"]])
    assert (tmp_path / "made").read_text() == "x\n"


def test_a_build_that_fails_says_what_and_runs_again(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(SuiteError, match=r"(?s)sh -c .* failed.*b\.log.*no such thing"):
            build.once(tmp_path, "b", [["sh", "-c", "echo no such thing >&2; exit 3"]])

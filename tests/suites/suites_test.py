# SPDX-License-Identifier: Apache-2.0
"""The runner and the parsers of the suites, on outputs made here; no suite runs."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import run as runner  # noqa: E402
from catalog import cpython, rebuild, stress_ng  # noqa: E402
from harness import debian, record, variant, witness  # noqa: E402
from harness.suite import (  # noqa: E402
    FAILED,
    PASSED,
    SKIPPED,
    Command,
    Difference,
    Output,
    SuiteError,
)


def output(status: int | None, text: str = "", folder: Path = Path()) -> Output:
    return Output(status, text, folder)


def made(tests: dict[str, str], allocator: str = "llamalloc", conf: str = "") -> record.Record:
    return record.Record("s", "1", "tests", allocator, conf, 1, tests)


@pytest.mark.parametrize(
    ("status", "outcome"), [(0, PASSED), (77, SKIPPED), (1, FAILED), (-11, FAILED), (None, FAILED)]
)
def test_a_command_without_parser_is_one_test(status, outcome):
    assert Command("x", ["x"]).outcomes(output(status)) == {"x": outcome}


@pytest.mark.parametrize(
    ("status", "end"), [(2, "exit 2"), (-6, "signal 6"), (None, "stopped by the time limit")]
)
def test_a_command_that_fails_without_a_failed_test_is_a_failed_test(status, end):
    command = Command("all", ["x"], parse=lambda _: {"a": PASSED})
    assert command.outcomes(output(status)) == {"a": PASSED, f"all: {end}": FAILED}


def test_failures_are_told_apart():
    glibc = made({"a": FAILED, "b": PASSED, "c": PASSED, "d": PASSED, "e": PASSED}, "glibc")
    run = made({"a": FAILED, "b": FAILED, "c": FAILED, "d": PASSED})
    verdict = record.judge(run, glibc, [Difference(["c*"], "its own lists")])
    assert verdict.with_glibc == ["a"]
    assert verdict.expected == {"c": "its own lists"}
    assert verdict.unexpected == ["b", "e"]  # e: the run ended before it
    assert record.remarks(verdict) == "2 unexpected; 1 expected; 1 fail with glibc as well"


def test_a_difference_of_one_configuration_is_none_of_others():
    difference = [Difference(["a"], "slow", conf="hardened")]
    glibc = made({"a": PASSED}, "glibc")
    assert record.judge(made({"a": FAILED}, conf="hardened"), glibc, difference).expected
    assert record.judge(made({"a": FAILED}), glibc, difference).unexpected == ["a"]


def test_records_come_back_and_make_a_table(tmp_path):
    (tmp_path / "s").mkdir()
    made({"a": PASSED, "b": SKIPPED}).write(tmp_path / "s")
    made({"a": PASSED, "b": SKIPPED}, "glibc").write(tmp_path / "s")
    records = record.read_all(tmp_path)
    assert [r.allocator for r in records] == ["glibc", "llamalloc"]
    row = record.table(records, {}).splitlines()[-1]
    assert row == "| s | 1 | tests | 1 / 0 / 1 | llamalloc | 1 / 0 / 1 | no difference |"


JUNIT = """<testsuites><testsuite><testcase name="test.a.T.one"/>
<testcase name="test.a.T.two"><failure/></testcase>
<testcase name="test.a.T.three"><error/></testcase>
<testcase name="test.a.T.four"><skipped/></testcase></testsuite></testsuites>"""


def test_cpython_reads_its_report(tmp_path):
    (tmp_path / "junit.xml").write_text(JUNIT)
    assert cpython.parser("a")(output(2, folder=tmp_path)) == {
        "a": FAILED,
        "a: test.a.T.one": PASSED,
        "a: test.a.T.two": FAILED,
        "a: test.a.T.three": FAILED,
        "a: test.a.T.four": SKIPPED,
    }


def test_cpython_modules_that_crash_have_failed(tmp_path):
    assert cpython.parser("a")(output(-11, folder=tmp_path)) == {"a": FAILED}


def test_cpython_modules_that_need_what_is_not_here_are_skipped(tmp_path):
    text = "0:00:00 [1/1] test_a\ntest_a skipped -- No module named 'a'\n"
    assert cpython.parser("test_a")(output(0, text, tmp_path)) == {"test_a": SKIPPED}


@pytest.mark.parametrize(
    ("status", "text", "outcome"),
    [
        (0, "stress-ng: info:", PASSED),
        (0, "stress-ng: fail: [7] corrupt", FAILED),
        (2, "", FAILED),
        (3, "", SKIPPED),
        (4, "", SKIPPED),
    ],
)
def test_stress_ng_reads_what_it_reports(status, text, outcome):
    assert stress_ng.parser("malloc")(output(status, text)) == {"malloc": outcome}


def test_rebuild_compares_every_object(tmp_path):
    for name, text in (("a.o", "1"), ("b.o", "2"), ("c.o", "3")):
        (tmp_path / "gcc" / "src").mkdir(parents=True, exist_ok=True)
        (tmp_path / "gcc/src" / name).write_text(text)
    rebuild.keep_reference(tmp_path, "gcc", "sources")
    (tmp_path / "gcc/src/b.o").write_text("other")
    (tmp_path / "gcc/src/c.o").unlink()
    assert rebuild.parser(tmp_path, "gcc")(output(0)) == {
        "gcc: src/a.o": PASSED,
        "gcc: src/b.o": FAILED,
        "gcc: src/c.o": FAILED,
    }


BINDINGS = """
 7: binding file /lib/libc.so.6 [0] to {first} [0]: normal symbol `malloc' [GLIBC_2.2.5]
 7: binding file /usr/bin/python3.11 [0] to {second} [0]: normal symbol `malloc' [GLIBC_2.2.5]
 7: binding file /usr/bin/python3.11 [0] to /lib/libc.so.6 [0]: normal symbol `mallopt'
"""


def test_bindings_are_followed_through_the_stub_of_a_program():
    stub = BINDINGS.format(first="/usr/bin/python3.11", second="/x/libllamalloc.so")
    assert variant.bound_to(stub) == {"/x/libllamalloc.so"}
    assert variant.bound_to("7: nothing of it") == set()


def test_a_program_that_is_not_preloaded_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(variant.LIBRARIES, "llamalloc", tmp_path / "libllamalloc.so")
    with pytest.raises(SuiteError, match=r"true: malloc is .*libc\.so\.6, not .*libllamalloc\.so"):
        variant.prove(variant.Variant("llamalloc"), ["true"], tmp_path)
    variant.prove(variant.Variant("glibc"), ["true"], tmp_path)


def test_a_configuration_has_its_folder(tmp_path):
    names = variant.Variant("llamalloc", "sampled").environment(tmp_path)["LLAMALLOC_CONF"]
    assert f"profile:{tmp_path}/" in names
    plain = variant.Variant("llamalloc", "retain:1MiB").environment(tmp_path)
    assert plain["LLAMALLOC_CONF"] == "retain:1MiB"
    assert "LD_PRELOAD" not in variant.Variant("glibc").environment(tmp_path)


def test_packages_that_are_missing_are_named_with_the_command():
    with pytest.raises(SuiteError) as error:
        debian.require("x", ["dpkg", "no-such-package"])
    text = str(error.value)
    assert text.endswith("apt-get install --no-install-recommends no-such-package")


WATCHED = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from harness import witness
witness.adopt_orphans()
with witness.Witness(sys.argv[2]) as seen:
    shell = seen.start(["sh", "-c", "sleep 30 & exit 7"])
    status = shell.wait()
    time.sleep(3)
left = len(witness.descendants(os.getpid(), witness.parents()))
witness.end_all()
print(status, seen.programs(), left, len(witness.descendants(os.getpid(), witness.parents())))
"""


@pytest.mark.parametrize(("library", "had"), [("/libc.so.6", "[1, 0]"), ("/no.so", "[0, 1]")])
def test_orphans_are_watched_and_ended(library, had):
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(HERE), library],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == f"7 {{'sleep': {had}}} 1 0\n", done.stderr


def test_what_ended_is_reaped_but_not_what_somebody_waits_for():
    child = subprocess.Popen(["true"])
    while not witness.is_zombie(child.pid):
        time.sleep(0.01)
    witness.reap({child.pid})
    assert not Path("/proc", str(child.pid)).exists()
    child.wait()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no-such-suite"], "no such suite: no-such-suite; known: cpython"),
        (["--allocators", "hoard"], "no such allocator: hoard; known: glibc"),
        (["--allocators", "glibc", "--conf", "hardened"], "which --allocators leaves out"),
    ],
)
def test_errors_are_one_line_that_names_what_is_known(arguments, text, capsys, tmp_path):
    assert runner.main(arguments, tmp_path) == 2
    errors = capsys.readouterr().err
    assert text in errors and errors.count("\n") == 1


def test_the_list_names_every_suite(capsys, tmp_path):
    assert runner.main(["--list"], tmp_path) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("cpython", "glibc-malloc", "rebuild", "stress-ng"))


def test_an_unexpected_failure_is_the_exit_status(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "s"
    folder.mkdir()

    def ran(name, suite, chosen, out):
        tests = {"a": FAILED if chosen.allocator == "llamalloc" else PASSED}
        done = made(tests, chosen.allocator)
        done.write(folder)
        return done

    suite = stress_ng.SUITE
    monkeypatch.setattr(runner.execute, "run", ran)
    runs = [variant.Variant("glibc"), variant.Variant("llamalloc")]
    assert not runner.run_suites({"s": suite}, runs, tmp_path)
    assert "UNEXPECTED: a" in capsys.readouterr().out
    assert runner.run_suites({"s": suite}, runs[:1], tmp_path)

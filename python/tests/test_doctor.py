# SPDX-License-Identifier: Apache-2.0
"""The doctor on programs and settings made here: each fault must be found and bear a cure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import OWN_MALLOC, TRIVIAL, compiled

from llamalloc.cli import call
from llamalloc.running import doctor, hugepages, launch
from llamalloc.running.doctor import NOTE, OK, PROBLEM, Finding


def about(program: Path) -> dict[str, Finding]:
    name = str(program)
    return {f.subject.removeprefix(name): f for f in doctor._program(name)}


def test_a_good_program_is_ok_and_a_stripped_one_noted(tmp_path: Path) -> None:
    found = about(compiled(tmp_path / "good", TRIVIAL))
    assert {f.level for f in found.values()} == {OK}
    assert about(compiled(tmp_path / "bare", TRIVIAL, "-s"))[": symbols"].level == NOTE


@pytest.mark.parametrize(
    ("source", "flag", "words"),
    [(TRIVIAL, "-static", "statically linked"), (OWN_MALLOC, "-O1", "its own malloc")],
)
def test_what_cannot_be_preloaded_is_a_problem(
    tmp_path: Path, source: str, flag: str, words: str
) -> None:
    (finding,) = about(compiled(tmp_path / "p", source, flag)).values()
    assert finding.level == PROBLEM and words in finding.found and finding.cure


def test_another_malloc_library_is_named(tmp_path: Path) -> None:
    soname = ("-shared", "-fPIC", "-Wl,-soname,libjemalloc.so.9")
    other = compiled(tmp_path / "libjemalloc.so.9", "int je = 1;", *soname)
    source = "extern int je; int main(void) { return je; }"
    program = compiled(tmp_path / "p", source, libraries=[other])
    finding = about(program)[": malloc"]
    assert finding.level == OK and finding.found == "libjemalloc.so.9"


def test_a_program_without_a_build_id_is_noted(tmp_path: Path) -> None:
    found = about(compiled(tmp_path / "p", TRIVIAL, "-Wl,--build-id=none"))[": build-id"]
    assert found.level == NOTE and "--build-id" in found.cure


def test_learning_is_offered_or_its_place_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLAMALLOC_CONF", raising=False)
    assert doctor.learning().found == "off" and "--learn" in doctor.learning().meaning
    for value, level in (("on", OK), (str(tmp_path), OK), ("/none/x/", PROBLEM)):
        monkeypatch.setenv("LLAMALLOC_CONF", f"learn:{value}")
        assert doctor.learning().level == doctor.learning("sh").level == level
    assert doctor.learning().cure == "make it: mkdir -p /none/x"
    monkeypatch.setenv("LLAMALLOC_CONF", "learn:no")
    assert doctor.learning().found == "off"
    file = tmp_path / "llamalloc.conf"
    file.write_text("learn: /none/y/\n")
    monkeypatch.setenv("LLAMALLOC_CONF", f"conf_file:{file}")
    assert "/none/y" in doctor.learning().found
    monkeypatch.setenv("LLAMALLOC_CONF", "lean:x")
    assert doctor.learning().level == OK


def test_the_configuration_and_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "llamalloc.conf"
    file.write_text("# a server\nretain: 1MiB\nstats: /a,b\n")
    monkeypatch.setenv("LLAMALLOC_CONF", f"release_delay:1s,conf_file:{file}")
    found = doctor.configuration()
    assert (found.level, found.found) == (OK, f"2 options, and 2 of {file}")
    file.write_text("retains: 1MiB\n")
    found = doctor.configuration()
    assert found.level == PROBLEM and str(file) in found.found and "retains" in found.found
    file.unlink()
    assert doctor.configuration().level == PROBLEM
    wrong = f"profile:{tmp_path}/p,control:{tmp_path}/c,retain:lots,predict_recheck:1"
    monkeypatch.setenv("LLAMALLOC_CONF", wrong)
    found = doctor.configuration()
    assert found.level == PROBLEM and '"retain:lots": not a size' in found.found
    assert found.meaning == "what is wrong is ignored: 2 of 4 options"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv("LLAMALLOC_CONF")
    assert "conf_file" in doctor.configuration().meaning


@pytest.mark.parametrize(
    ("text", "setting", "level"),
    [
        ("always [madvise] never", "madvise", OK),
        ("[always] madvise never", "always", OK),
        ("always madvise [never]", "never", PROBLEM),
        ("", "unknown", PROBLEM),
    ],
)
def test_huge_page_settings(tmp_path: Path, text: str, setting: str, level: str) -> None:
    (tmp_path / "enabled").write_text(text)
    assert hugepages.setting(tmp_path / "enabled") == setting
    assert doctor._enabled(setting).level == level


@pytest.mark.parametrize(
    ("setting", "switch", "in_force", "level"),
    [
        ("always", 1, "disabled", PROBLEM),
        ("madvise", 1, "disabled", PROBLEM),
        ("always", 3, "madvise", OK),
        ("madvise", 3, "madvise", OK),
        ("never", 1, "never", PROBLEM),
        ("always", 0, "always", OK),
    ],
)
def test_huge_pages_that_the_process_switched_off(
    setting: str, switch: int, in_force: str, level: str
) -> None:
    finding = doctor._enabled(setting, switch)
    assert (finding.found, finding.level) == (in_force, level)


def test_one_finding_says_what_holds_for_the_process() -> None:
    """PR_SET_THP_DISABLE is inherited: the doctor is started with it."""
    code = (
        "import ctypes; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); "
        "from llamalloc.running import doctor; "
        "print([f.found for f in doctor._huge_pages() if f.subject.startswith('huge pages')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout in ("['disabled']\n", "['never']\n", "['unknown']\n")


def test_a_borrowed_setting_is_put_back_after_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "enabled"
    path.write_text("always [madvise] never")
    with pytest.raises(KeyboardInterrupt), hugepages.borrowed("always", path):
        assert path.read_text() == "always"
        raise KeyboardInterrupt
    assert path.read_text() == "madvise"
    with hugepages.borrowed("madvise", path):
        pass
    assert path.read_text() == "madvise"


def test_the_memory_limit_of_a_control_group_above_us_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    assert doctor.cgroup_limit(tmp_path, "0::/a/b\n") is None
    (tmp_path / "a" / "memory.max").write_text("1073741824\n")
    assert doctor.cgroup_limit(tmp_path, "0::/a/b\n") == 1 << 30
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert doctor.cgroup_limit(tmp_path, "4:cpu,memory:/\n") is None
    old = tmp_path / "memory" / "c"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("4096\n")
    assert doctor.cgroup_limit(tmp_path, "4:cpu,memory:/c\n3:pids:/c\n") == 4096


def test_a_library_that_does_not_load_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "bad.so").write_text("not a library")
    finding = doctor._loads(tmp_path / "bad.so")
    assert finding.level == PROBLEM and "make build" in finding.cure
    good = compiled(tmp_path / "good.so", "int x;", "-shared", "-fPIC")
    assert doctor._loads(good).level == OK


def test_the_verb_prints_json_and_tells_problems_by_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    library = compiled(tmp_path / launch.LIBRARY, "int x;", "-shared", "-fPIC")
    monkeypatch.setenv("LLAMALLOC_LIBRARY", str(library))
    monkeypatch.setattr(hugepages, "SETTING", tmp_path / "none")
    program = compiled(tmp_path / "p", TRIVIAL, "-static")
    assert call(["doctor", "--json", str(program)]) == 1
    findings = json.loads(capsys.readouterr().out)
    assert any(f["level"] == PROBLEM and "statically" in f["found"] for f in findings)
    assert call(["doctor", str(tmp_path / "none")]) == 2
    assert "no such file" in capsys.readouterr().err

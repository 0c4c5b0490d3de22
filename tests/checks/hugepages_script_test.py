# SPDX-License-Identifier: Apache-2.0
"""scripts/with_hugepages.sh on a file that stands for the system's setting."""

import os
import subprocess
from pathlib import Path

import pytest
from tree import ROOT


@pytest.fixture
def setting(tmp_path: Path) -> Path:
    """As the kernel shows it; what is written stays as it was written."""
    path = tmp_path / "enabled"
    path.write_text("always [madvise] never\n")
    return path


def run(setting: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TRANSPARENT_HUGEPAGE": str(setting)}
    return subprocess.run(
        [ROOT / "scripts" / "with_hugepages.sh", *words], env=environment,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("wanted", ["always", "never"])
def test_the_command_runs_under_the_setting_and_it_is_put_back(setting: Path, wanted: str) -> None:
    done = run(setting, wanted, "cat", setting)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{wanted}\n", "")
    assert setting.read_text() == "madvise\n"


@pytest.mark.parametrize(("end", "code"), [("exit 7", 7), ("kill -TERM $PPID", 143)])
def test_it_is_put_back_however_the_command_ends(setting: Path, end: str, code: int) -> None:
    assert run(setting, "always", "bash", "-c", end).returncode == code
    assert setting.read_text() == "madvise\n"


def test_the_setting_in_force_is_not_written(setting: Path) -> None:
    assert run(setting, "madvise", "true").returncode == 0
    assert setting.read_text() == "always [madvise] never\n"


def test_two_at_once_are_refused(setting: Path) -> None:
    script = str(ROOT / "scripts" / "with_hugepages.sh")
    done = run(setting, "always", script, "never", "true")
    assert done.returncode == 2 and "it runs already" in done.stderr
    assert setting.read_text() == "madvise\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [((), "always, madvise or never"), (("often", "true"), "often"), (("never",), "no command")],
)
def test_bad_words_are_one_line(setting: Path, words: tuple[str, ...], told: str) -> None:
    done = run(setting, *words)
    assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1


def test_a_kernel_without_huge_pages_is_named(tmp_path: Path) -> None:
    done = run(tmp_path / "none", "never", "true")
    assert done.returncode == 2 and "no transparent huge pages" in done.stderr

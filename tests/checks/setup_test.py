# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh without root: quiet where the tools are there, exact where one is missing."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tree import ROOT

TOOLS = ("g++", "cmake", "ninja", "python3")  # of group build, which are commands
SHELL = ("bash", "dirname", "mkdir", "sort", "cut", "sed", "expand", "paste", "cat")


@pytest.fixture
def commands(tmp_path) -> Path:
    """A PATH with the tools and no dpkg, apt-get or sudo; `id` says that this is not root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in SHELL:
        (folder / name).symlink_to(shutil.which(name))
    for name in TOOLS:
        script(folder, name, "exit 0")
    script(folder, "id", "echo 1000")
    return folder


def script(folder: Path, name: str, line: str) -> None:
    (folder / name).write_text(f"#!/bin/bash\n{line}\n")
    (folder / name).chmod(0o755)


def setup(commands: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """`scripts/setup.sh packages build` of a copy, so that nothing here is touched."""
    copy = tmp_path / "scripts" / "setup.sh"
    copy.parent.mkdir()
    shutil.copy(ROOT / "scripts" / "setup.sh", copy)
    return subprocess.run(
        ["bash", copy, "packages", "build"], env={"PATH": str(commands)},
        capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_tools_that_are_there_need_neither_root_nor_debian(commands, tmp_path):
    done = setup(commands, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("has_apt", [False, True])
def test_a_missing_tool_is_named_with_its_use_and_the_cure(commands, tmp_path, has_apt):
    (commands / "ninja").unlink()
    if has_apt:
        script(commands, "apt-get", "exit 9")
    done = setup(commands, tmp_path)
    assert done.returncode == 1
    assert "ninja-build" in done.stderr and "runs the build" in done.stderr
    assert "cmake" not in done.stderr
    cure = "Run as root: apt-get install --no-install-recommends ninja-build"
    assert (cure in done.stderr) == has_apt

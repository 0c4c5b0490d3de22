# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` and `pip install` leave behind is whole: the command works from each.

Both take the release build as it is. The wheel goes into a fresh environment that sees this one's
dependencies, but neither its package nor the checkout.
"""

import json
import shutil
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from installing import VERSION, output
from preload import ROOT

TOOLS = ("llamalloc-trace", "llamalloc-simulate", "llamalloc-replay", "llamalloc-generate")
LIBRARIES = ("libllamalloc.so", "libllamalloc_trace.so")
TRACE = ROOT / "workloads" / "traces" / "clang.trace"


def test_an_installed_tree_holds_all_that_the_command_needs(installed):
    files = {path.name: path for path in installed.rglob("*") if path.is_file()}
    for name in (*LIBRARIES, "libllamalloc.a", "llamalloc.h", "llamalloc.pc", *TOOLS):
        assert name in files, name
    assert "llamallocConfig.cmake" in files
    assert {files[name].parent for name in TOOLS} == {installed / "bin"}
    contracts = installed / "share" / "llamalloc" / "contracts"
    for source in (*(ROOT / "contracts").glob("*.def"), *(ROOT / "contracts").glob("*.md")):
        assert (contracts / source.name).read_bytes() == source.read_bytes()


def test_the_command_takes_library_and_tools_from_an_installed_tree(installed, tmp_path):
    library = next(installed.rglob("libllamalloc.so"))
    command = (sys.executable, "-m", "llamalloc.cli")
    more = {"LLAMALLOC_LIBRARY": str(library), "PYTHONPATH": str(ROOT / "python")}
    assert_works(command, tmp_path, library.parent, **more)


def assert_works(command: tuple, folder: Path, libraries: Path, **more: str) -> None:
    """run, record, trace and simulate."""
    preloaded = output(*command, "run", "--", "cat", "/proc/self/maps", cwd=folder, **more)
    assert str(libraries / "libllamalloc.so") in preloaded
    record = ("record", "--interval", "1KiB", "-o", folder / "p.pb.gz", "--")
    output(*command, *record, sys.executable, "-c", "print(len([[] for i in range(9999)]))",
           cwd=folder, **more, PYTHONMALLOC="malloc")  # fmt: skip
    assert (folder / "p.pb.gz").stat().st_size > 100
    output(*command, "trace", "-o", folder / "t.trace", "--", "ls", "/", cwd=folder, **more)
    assert (folder / "t.trace").stat().st_size > 100
    found = json.loads(output(*command, "simulate", TRACE, "--json", cwd=folder, **more))
    assert found[0]["trace"]["events"] > 10_000


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "-q", "--no-deps"]
    if tuple(map(int, metadata.version("setuptools").split(".")[:2])) >= (70, 1):
        pip.append("--no-build-isolation")  # else pip fetches one that is new enough
    output(*pip, "-w", folder, ROOT, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_library_and_tools_and_not_the_lab(wheel):
    assert wheel.name == f"llamalloc-{VERSION}-py3-none-linux_x86_64.whl"
    names = zipfile.ZipFile(wheel).namelist()
    for name in LIBRARIES:
        assert f"llamalloc/_native/lib/{name}" in names
    for name in TOOLS:
        assert f"llamalloc/_native/bin/{name}" in names
    assert "llamalloc/_contracts/options.def" in names
    assert not [name for name in names if name.startswith("lab/") or "/tests/" in name]


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory) -> Path:
    """A fresh virtual environment with the wheel; the dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder)
    output(*pip, "install", "-q", "--no-deps", "--no-index", wheel, cwd=folder)
    site = Path(sysconfig.get_path("platlib", vars={"base": folder, "platbase": folder}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_wheel_works_in_a_fresh_environment(environment, tmp_path):
    command = (environment / "bin" / "llamalloc",)
    assert output(*command, "--version", cwd=tmp_path) == f"llamalloc {VERSION}\n"
    native = next(environment.rglob("llamalloc/_native/lib"))
    assert_works(command, tmp_path, native)


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_the_wheel_runs_a_server(environment, tmp_path):
    command = (environment / "bin" / "llamalloc", "run", "--", "redis-server", "--version")
    assert "Redis server v=" in output(*command, cwd=tmp_path)

# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel: the Python package, and the library and the tools that CMake makes.

    build/release (a new build/native where there is none) -> cmake --install -> llamalloc/_native

An editable install takes both from the checkout's build, so nothing is compiled for it.
pyproject.toml holds the rest.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# What a wheel holds: the components of cmake/install.cmake that run.
COMPONENT = "runtime"
TARGETS = (
    "llamalloc",
    "llamalloc_trace_preload",
    "llamalloc-trace",
    "llamalloc-simulate",
    "llamalloc-replay",
    "llamalloc-generate",
)


def cmake(*words: str | Path) -> None:
    """One call of CMake. Ends the build with the cure where there is none."""
    if shutil.which("cmake") is None:
        raise SystemExit("llamalloc: cmake is not installed; `scripts/setup.sh packages build`")
    subprocess.run(["cmake", *map(str, words)], cwd=ROOT, check=True)


def native_build() -> Path:
    """The build folder with the library and the tools, up to date."""
    folder = ROOT / "build" / "release"
    if not (folder / "build.ninja").exists():
        folder = ROOT / "build" / "native"
        cmake("--preset", "release", "-B", folder, "-DLLAMALLOC_BUILD_TESTS=OFF")
    cmake("--build", folder, "--target", *TARGETS)
    return folder


def install_native(target: Path) -> None:
    """Libraries into target/lib, tools into target/bin, whatever the system calls its folders."""
    folder = native_build()
    with tempfile.TemporaryDirectory() as scratch:
        cmake("--install", folder, "--prefix", scratch, "--component", COMPONENT, "--strip")
        for kind, pattern in (("lib", "lib*.so"), ("bin", "llamalloc-*")):
            (target / kind).mkdir(parents=True, exist_ok=True)
            for file in Path(scratch).rglob(pattern):
                shutil.copy2(file, target / kind / file.name)
    shutil.copy2(ROOT / "VERSION", target / "VERSION")


class Build(build):
    """In a folder of its own, empty at first: what an older tree had does not get into a wheel."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.build_base = "build/wheel"

    def run(self) -> None:
        shutil.rmtree(ROOT / "build" / "wheel", ignore_errors=True)
        super().run()


class BuildPython(build_py):
    """The package, and llamalloc/_native in it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            install_native(Path(self.build_lib) / "llamalloc" / "_native")


class Native(Distribution):
    """setuptools' word for a package with machine code inside."""

    def has_ext_modules(self) -> bool:
        return True


class Wheel(bdist_wheel):
    """For this system, and for every Python 3: the machine code knows nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    distclass=Native,
    cmdclass={"build": Build, "build_py": BuildPython, "bdist_wheel": Wheel},
)

# SPDX-License-Identifier: Apache-2.0
"""The builds: which program, of which Debian release, by which compiler, stripped or not."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.places import WORKLOADS
from lab.versions.apt import Release

JOBS = 2


class BuildError(RuntimeError):
    """A build failed; one message with the compiler's first error."""


@dataclass(frozen=True)
class Compiler:
    """A compiler and how hard it works."""

    name: str
    c: str
    cxx: str
    flags: str


GCC_O2 = Compiler("gcc-O2", "gcc", "g++", "-O2")
GCC_LTO = Compiler("gcc-O3-lto", "gcc", "g++", "-O3 -flto")
CLANG_O2 = Compiler("clang-O2", "clang", "clang++", "-O2")
COMPILERS = (GCC_O2, GCC_LTO, CLANG_O2)


@dataclass(frozen=True)
class Build:
    """One binary. Two that differ only in `stripped` hold the same code."""

    program: str
    release: str
    compiler: Compiler
    stripped: bool = False

    def __str__(self) -> str:
        """Its name, a file name as well."""
        tail = "-stripped" if self.stripped else ""
        return f"{self.program}-{self.release}-{self.compiler.name}{tail}"


class Workshop:
    """Makes binaries under `cache`, each once."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache

    def binary(self, build: Build) -> Path:
        """The program of a build. Raises AptError or BuildError."""
        found = self._cache / "bin" / str(build)
        if not found.exists():
            found.parent.mkdir(parents=True, exist_ok=True)
            fresh = found.with_suffix(".new")
            if build.stripped:
                whole = Build(build.program, build.release, build.compiler)
                shutil.copy(self.binary(whole), fresh)
                run(["strip", str(fresh)])
            else:
                _MAKERS[build.program](self, build, fresh)
            fresh.rename(found)
        return found

    def unpacked(self, release: str, kind: str, packages: list[str]) -> Path:
        """A folder with a source or with binary packages of a release, fetched once."""
        found = self._cache / kind / f"{packages[0]}-{release}"
        if not found.exists():
            fresh = found.with_name(found.name + ".new")
            shutil.rmtree(fresh, ignore_errors=True)
            debian = Release(release, self._cache / "apt" / release)
            if kind == "source":
                debian.source(packages[0], fresh).rename(fresh / "tree")
            else:
                debian.binaries(packages, fresh)
            fresh.rename(found)
        return found


def _redis(shop: Workshop, build: Build, out: Path) -> None:
    """Redis's own Makefile, with malloc of libc."""
    tree = out.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    source = shop.unpacked(build.release, "source", ["redis"]) / "tree"
    shutil.copytree(source, tree, symlinks=True)
    # Debian's rules write this file into Redis 6.0: Lua modules of the system. Here are none.
    (tree / "debian").mkdir(exist_ok=True)
    (tree / "debian" / "lua_libs_debian.c").touch()
    make = ["make", f"-j{JOBS}", "-C", str(tree / "src"), "redis-server", "MALLOC=libc"]
    make += [f"CC={build.compiler.c}", f"CXX={build.compiler.cxx}", "BUILD_TLS=no"]
    run([*make, f"OPTIMIZATION={build.compiler.flags}", "USE_SYSTEMD=no", "SKIP_VEC_SETS=yes"])
    shutil.copy(tree / "src" / "redis-server", out)
    shutil.rmtree(tree)


_ROCKSDB_PACKAGES = {
    "bullseye": ["librocksdb-dev", "librocksdb6.11"],
    "bookworm": ["librocksdb-dev", "librocksdb7.8"],
}


def _rocksdb(shop: Workshop, build: Build, out: Path) -> None:
    """The load of workloads/rocksdb on Debian's library of that release."""
    files = shop.unpacked(build.release, "packages", _ROCKSDB_PACKAGES[build.release]) / "usr"
    library = next(files.rglob("librocksdb.so")).parent
    flags = ["-std=c++20", *build.compiler.flags.split(), "-isystem", str(files / "include")]
    link = [f"-L{library}", "-lrocksdb", f"-Wl,-rpath,{library}", "-Wl,--build-id"]
    source = WORKLOADS / "rocksdb" / "store.cc"
    run([build.compiler.cxx, *flags, str(source), "-o", str(out), *link])


_MAKERS = {"redis": _redis, "rocksdb": _rocksdb}
PROGRAMS = tuple(_MAKERS)


def run(words: list[str]) -> None:
    """Runs a command to its end at low priority. Raises BuildError."""
    words = ["nice", "-n", "10", *words]
    done = subprocess.run(
        words, env=_environment(), capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).splitlines()
        errors = [line for line in said if "error" in line.lower() or "undefined" in line] or said
        raise BuildError(f"{' '.join(words[3:5])} failed: {(errors or ['?'])[0].strip()}")


def _environment() -> dict[str, str]:
    """Ours, without what would change a build."""
    noise = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "MALLOC", "LD_PRELOAD")
    return {key: value for key, value in os.environ.items() if key not in noise}

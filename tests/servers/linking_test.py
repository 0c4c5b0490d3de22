# SPDX-License-Identifier: Apache-2.0
"""Programs that link the library, statically or not, from an installed tree."""

import subprocess
from pathlib import Path

import pytest
from installing import VERSION, output
from preload import ROOT, environment

SOURCE = ROOT / "tests" / "servers" / "linked.cc"
WAYS = ("", "-static", "-static-pie")


def pkg_config(installed: Path, *arguments: str) -> list[str]:
    files = list(installed.rglob("llamalloc.pc"))
    assert len(files) == 1
    env = {"PKG_CONFIG_PATH": str(files[0].parent)}
    return output("pkg-config", *arguments, "llamalloc", **env).split()


def compile_linked(program: Path, *options: str) -> Path:
    output("g++", "-std=c++20", "-O2", "-pthread", SOURCE, *options, "-o", program)
    return program


@pytest.mark.parametrize("way", WAYS)
def test_static_link_has_no_symbol_twice_and_works(installed, tmp_path, way):
    libraries = pkg_config(installed, "--variable=static_libs")
    program = compile_linked(tmp_path / "a", *way.split(), *libraries)
    assert output(program) == f"{VERSION} 1 8\n"


@pytest.mark.parametrize("way", WAYS)
def test_static_link_of_c_needs_no_libstdcpp(installed, tmp_path, way):
    source = tmp_path / "a.c"
    source.write_text("#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }\n")
    libraries = pkg_config(installed, "--variable=static_libs")
    output("gcc", source, *way.split(), *libraries, "-o", tmp_path / "a")
    conf = {"LLAMALLOC_CONF": f"stats:{tmp_path}/s.json"}
    output(tmp_path / "a", **conf)
    assert (tmp_path / "s.json").stat().st_size > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", ["constructor", "preinit_array"])
def test_fork_handlers_of_other_objects(installed, tmp_path, when, way):
    """They start and join threads. tests/traps/trap_list.py has them under a preloaded library."""
    late = when == "constructor"
    names = ["fork_order_plugin.c", "fork_order.c"] if late else ["fork_handlers.c"]
    sources = [ROOT / "tests/traps" / name for name in names]
    flags = ["-O1", "-g", "-D_GNU_SOURCE", "-DLINKED", "-fno-builtin", "-pthread", "-w"]
    libraries = pkg_config(installed, "--variable=static_libs")
    output("gcc", *flags, *way.split(), *sources, *libraries, "-o", tmp_path / "a")
    arguments = [] if late else ["threads"]
    env = {"FORK_ORDER": "lock join threads allocate many"}
    assert "forks" in output(tmp_path / "a", *arguments, **env)


@pytest.mark.parametrize("way", ["", "-static"])
def test_threads_that_have_ended_keep_no_cache(installed, tmp_path, way):
    source = ROOT / "tests" / "servers" / "ended_threads.cc"
    libraries = pkg_config(installed, "--variable=static_libs")
    output("g++", "-std=c++20", "-pthread", source, *way.split(), *libraries, "-o", tmp_path / "a")
    assert output(tmp_path / "a").split() == ["1"] * 3


@pytest.mark.parametrize("way", WAYS)
def test_the_last_thread_ends_the_process_after_the_main_thread(installed, tmp_path, way):
    source = ROOT / "tests" / "traps" / "main_ends.c"
    flags = ["-D_GNU_SOURCE", "-fno-builtin", "-pthread"]
    libraries = pkg_config(installed, "--variable=static_libs")
    output("gcc", *flags, *way.split(), source, *libraries, "-o", tmp_path / "a")
    assert output(tmp_path / "a") == "exit handlers ran\n"


def test_program_that_calls_no_malloc_itself_still_gets_ours(installed, tmp_path):
    source = tmp_path / "a.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("x"); return 0; }\n')
    libraries = pkg_config(installed, "--variable=static_libs")
    output("gcc", "-static", source, *libraries, "-o", tmp_path / "a")
    assert "llamalloc_stats_json" in output("nm", tmp_path / "a")


def test_shared_link_by_pkg_config(installed, tmp_path):
    libraries = pkg_config(installed, "--cflags", "--libs")
    folder = next(installed.rglob("libllamalloc.so")).parent
    program = compile_linked(tmp_path / "a", *libraries, f"-Wl,-rpath,{folder}")
    assert output(program) == f"{VERSION} 1 8\n"


def test_find_package_gives_all_three_targets(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(user CXX)\nset(CMAKE_CXX_STANDARD 20)\n"
        f"find_package(llamalloc {VERSION} REQUIRED)\n"
        f"add_executable(shared {SOURCE})\ntarget_link_libraries(shared llamalloc::llamalloc)\n"
        f"add_executable(fixed {SOURCE})\ntarget_link_libraries(fixed llamalloc::static -static)\n"
        'file(WRITE ${CMAKE_BINARY_DIR}/h.cc "#include <llamalloc/llamalloc.h>\\n'
        'int main() { llamalloc::ScopedTag tag(\\"x\\"); }\\n")\n'
        "add_executable(headers ${CMAKE_BINARY_DIR}/h.cc)\n"
        "target_link_libraries(headers llamalloc::headers llamalloc::llamalloc)\n"
    )
    build = tmp_path / "build"
    output("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}")
    output("cmake", "--build", build)
    assert output(build / "shared") == output(build / "fixed") == f"{VERSION} 1 8\n"
    output(build / "headers")


def test_preload_under_a_program_that_links_it_too(installed, tmp_path):
    """Two copies: the program's own is what everybody calls."""
    libraries = pkg_config(installed, "--variable=static_libs")
    program = compile_linked(tmp_path / "a", *libraries)
    done = subprocess.run(
        [program], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{VERSION} 1 8\n", "")

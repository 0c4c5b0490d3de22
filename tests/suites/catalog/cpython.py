# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests, with every Python object from malloc: PYTHONMALLOC=malloc.

Left to itself the interpreter takes what is smaller than 512 bytes from arenas of its own.
"""

import xml.etree.ElementTree as ElementTree

from harness import debian
from harness.suite import FAILED, PASSED, SKIPPED, Command, Outcomes, Output, Suite

PYTHON = "/usr/bin/python3.11"
# Those about memory, threads, signals, and C modules that allocate for themselves. Debian's package
# has no test_capi and no test_sqlite3. What starts many processes: cpython_processes.py.
MODULES = """
    test_array test_atexit test_bigmem test_buffer test_bytes test_bz2 test_copy test_coroutines
    test_csv test_ctypes test_decimal test_deque test_dict test_exceptions test_faulthandler
    test_fork1 test_functools test_gc test_generators test_hashlib test_heapq test_io test_itertools
    test_json test_list test_long test_lzma test_marshal test_memoryio test_memoryview test_mmap
    test_os test_pickle test_pickletools test_poll test_posix test_pyexpat test_queue test_re
    test_resource test_scope test_select test_selectors test_set test_signal test_sort test_struct
    test_sys test_tempfile test_thread test_threadedtempfile test_threading test_threading_local
    test_tracemalloc test_tuple test_types test_unicode test_unicodedata test_wait3 test_wait4
    test_weakref test_weakset test_xml_etree test_xml_etree_c test_zipfile test_zlib
"""
SECONDS = 600  # a module, at most


def parser(module: str):
    def parse(output: Output) -> Outcomes:
        """The module as a whole, as one that crashed leaves no other trace, and its tests."""
        skipped = f"\n{module} skipped" in output.text
        found = {module: FAILED if output.status != 0 else SKIPPED if skipped else PASSED}
        report = output.folder / "junit.xml"
        if report.exists():
            for case in ElementTree.parse(report).iter("testcase"):
                kinds = {child.tag for child in case}
                outcome = FAILED if kinds & {"failure", "error"} else PASSED
                name = f"{module}: {case.get('name', '?')}"
                found[name] = SKIPPED if "skipped" in kinds else outcome
        return found

    return parse


def commands_for(modules: str) -> list[Command]:
    words = [PYTHON, "-m", "test", "--junit-xml", "{folder}/junit.xml"]
    environment = {"PYTHONMALLOC": "malloc", "TMPDIR": "{folder}"}
    return [
        Command(m, [*words, m], parser(m), seconds=SECONDS, environment=environment)
        for m in modules.split()
    ]


def suite_of(modules: str) -> Suite:
    return Suite(
        what=f"{len(modules.split())} modules of its tests, with PYTHONMALLOC=malloc",
        version=lambda: debian.version("libpython3.11-testsuite"),
        packages=("python3.11", "libpython3.11-testsuite"),
        commands=lambda folder: commands_for(modules),
        probes=((PYTHON, "-c", "pass"),),
        parallel=2,
    )


SUITE = suite_of(MODULES)

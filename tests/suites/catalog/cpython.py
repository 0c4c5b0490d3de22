# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests, with every Python object from malloc: PYTHONMALLOC=malloc.

Left to itself the interpreter takes what is smaller than 512 bytes from arenas of its own.
"""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from harness import debian
from harness.suite import FAILED, PASSED, SKIPPED, Command, Outcomes, Output, Suite

PYTHON = "/usr/bin/python3.11"
# Those about memory, threads, processes, signals, and C modules that allocate for themselves; the
# long ones first. Debian's package has no test_capi and no test_sqlite3.
MODULES = """
    test_asyncio test_multiprocessing_spawn test_multiprocessing_forkserver
    test_multiprocessing_fork test_concurrent_futures test_socket test_io test_subprocess
    test_threading test_signal test_faulthandler test_gc test_weakref test_pickle test_unicode
    test_array test_atexit test_bigmem test_buffer test_bytes test_bz2 test_copy test_coroutines
    test_csv test_ctypes test_decimal test_deque test_dict test_exceptions test_fork1
    test_functools test_generators test_hashlib test_heapq test_itertools test_json test_list
    test_long test_lzma test_marshal test_memoryio test_memoryview test_mmap test_os
    test_pickletools test_poll test_posix test_pyexpat test_queue test_re test_resource test_scope
    test_select test_selectors test_set test_sort test_struct test_sys test_tempfile test_thread
    test_threadedtempfile test_threading_local test_tracemalloc test_tuple test_types
    test_unicodedata test_wait3 test_wait4 test_weakset test_xml_etree test_xml_etree_c
    test_zipfile test_zlib
"""
SUMMARY = re.compile(r"^\S+ .*\[ *[\d/]+\] (test_\w+) (\w+)", re.MULTILINE)
MODULE_OUTCOMES = {"passed": PASSED, "skipped": SKIPPED}


def parse(output: Output) -> Outcomes:
    """Modules by the lines of progress, as one that crashed has no other trace; their tests."""
    found = {name: MODULE_OUTCOMES.get(word, FAILED) for name, word in SUMMARY.findall(output.text)}
    report = output.folder / "junit.xml"
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            outcome = FAILED if kinds & {"failure", "error"} else PASSED
            found[case.get("name", "?")] = SKIPPED if "skipped" in kinds else outcome
    return found


def commands(folder: Path) -> list[Command]:
    options = ["-j2", "--timeout", "900", "--junit-xml", "{folder}/junit.xml"]
    return [
        Command(
            "modules",
            [PYTHON, "-m", "test", *options, *MODULES.split()],
            parse,
            seconds=3000,
            environment={"PYTHONMALLOC": "malloc", "TMPDIR": "{folder}"},
        )
    ]


SUITE = Suite(
    what=f"{len(MODULES.split())} modules of its tests, with PYTHONMALLOC=malloc",
    version=lambda: debian.version("libpython3.11-testsuite"),
    packages=("python3.11", "libpython3.11-testsuite"),
    commands=commands,
    probes=((PYTHON, "-c", "pass"),),
)

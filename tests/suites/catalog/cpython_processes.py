# SPDX-License-Identifier: Apache-2.0
"""CPython's own tests that start many processes, or take long."""

from catalog.cpython import suite_of

MODULES = """
    test_asyncio test_concurrent_futures test_multiprocessing_fork test_multiprocessing_forkserver
    test_multiprocessing_spawn test_socket test_subprocess
"""
SUITE = suite_of(MODULES)

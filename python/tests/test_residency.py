# SPDX-License-Identifier: Apache-2.0
"""Counting the huge pages that hold memory: the maps that count, and our own memory."""

import mmap
import os

from llamalloc.running import residency

MAPS = """55a0-55b0 rw-p 00000000 00:00 0                          [heap]
5600-5700 r--p 00000000 08:01 11 /usr/lib/libc.so.6
7000-7100 rw-p 00000000 00:00 0 
7100-7200 ---p 00000000 00:00 0 
7200-7300 rw-s 00000000 00:01 12 /dev/zero (deleted)
7300-7400 rw-p 00000000 00:00 0 [anon: glibc: malloc]
7ff0-7fff rw-p 00000000 00:00 0                          [stack]
"""  # noqa: W291 - as the kernel writes it


def test_only_private_writable_anonymous_memory_counts():
    assert residency.anonymous_ranges(MAPS) == [
        (0x55A0, 0x55B0),
        (0x7000, 0x7100),
        (0x7300, 0x7400),
    ]


def test_regions_are_counted_once_however_many_pages_they_hold():
    before = residency.read(os.getpid())
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, 64 << 20, 4 << 20):  # every other huge page
            memory[at] = memory[at + 4096] = 1
        held = residency.read(os.getpid())
    assert 14 <= held.regions - before.regions <= 18
    assert 32 <= held.pages - before.pages <= 2000  # 16,384 if untouched pages counted

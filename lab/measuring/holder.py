# SPDX-License-Identifier: Apache-2.0
"""The process that is measured: it maps huge pages, and does what it is told on standard input.

    fill         writes every page: the kernel backs each 2 MiB by one huge page, if it can
    fill-small   the same on small pages
    give-back    MADV_DONTNEED for 7/8 of each 2 MiB; the first eighth stays
    unmap        munmap for the same
    cold         MADV_COLD for one small page of what stays in each 2 MiB
    check        answers `ok` if what stays still holds its bytes

It answers each word by one line: `ok`, or what failed. Started as a file: it imports nothing of us.
"""

from __future__ import annotations

import ctypes
import sys

HUGE, SMALL = 2 << 20, 4096
KEPT = HUGE // 8
_PROT_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22
_DONTNEED, _HUGEPAGE, _NOHUGEPAGE, _COLD = 4, 14, 15, 20  # advice of madvise(2)

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Holder:
    """`count` times 2 MiB of aligned address space."""

    def __init__(self, count: int) -> None:
        size = (count + 1) * HUGE
        start = _libc.mmap(None, size, _PROT_READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            raise OSError(ctypes.get_errno(), "mmap failed")
        self._first = -(-start // HUGE) * HUGE
        self._size = count * HUGE
        self._pages = range(self._first, self._first + self._size, HUGE)

    def do(self, word: str) -> None:
        """Raises OSError or AssertionError."""
        if word in ("fill", "fill-small"):
            advice = _HUGEPAGE if word == "fill" else _NOHUGEPAGE
            self._called(_libc.madvise, self._first, self._size, advice)
            ctypes.memset(self._first, 1, self._size)
            # They stay huge; but khugepaged must not collapse anew what was split.
            self._called(_libc.madvise, self._first, self._size, _NOHUGEPAGE)
        elif word == "give-back":
            self._each(lambda page: _libc.madvise(page + KEPT, HUGE - KEPT, _DONTNEED))
        elif word == "unmap":
            self._each(lambda page: _libc.munmap(page + KEPT, HUGE - KEPT))
        elif word == "cold":
            self._each(lambda page: _libc.madvise(page, SMALL, _COLD))
        elif word == "check":
            wanted = b"\1" * KEPT
            assert all(ctypes.string_at(page, KEPT) == wanted for page in self._pages), "bytes lost"
        else:
            raise OSError(0, f"no word {word}")

    def _each(self, call) -> None:
        for page in self._pages:
            self._called(call, page)

    @staticmethod
    def _called(call, *arguments: int) -> None:
        if call(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "the system call failed")


def main() -> None:
    """Until standard input ends."""
    holder = Holder(int(sys.argv[1]))
    for line in sys.stdin:
        try:
            holder.do(line.strip())
            print("ok", flush=True)
        except (OSError, AssertionError) as error:
            print(f"{line.strip()}: {error}", flush=True)


if __name__ == "__main__":
    main()

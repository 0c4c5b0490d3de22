# SPDX-License-Identifier: Apache-2.0
"""A script that python_test.py runs under the library: many kinds of allocation, sums checked."""

import ctypes
import ctypes.util
import hashlib
import json
import multiprocessing
import random
import sqlite3
import subprocess
import sys
import threading
import zlib


def build(seed: int) -> str:
    """Digest of a structure that is built, serialised, parsed, compressed and sorted."""
    source = random.Random(seed)
    table = {f"key{i}": [source.random() for _ in range(source.randrange(20))] for i in range(1500)}
    again = json.loads(json.dumps(table))
    assert again == table
    text = "\n".join(sorted(map(str, again.values())))
    assert zlib.decompress(zlib.compress(text.encode())).decode() == text
    return hashlib.sha256(text.encode()).hexdigest()


def in_threads(seeds: range) -> list[str]:
    results: dict[int, str] = {}
    threads = [threading.Thread(target=lambda s=s: results.update({s: build(s)})) for s in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[seed] for seed in seeds]


def in_processes(seeds: range, method: str) -> list[str]:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return pool.map(build, seeds)


def through_ctypes() -> None:
    """malloc, realloc and free of the process, and a callback from C's qsort."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = libc.realloc.restype = ctypes.c_void_p
    libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    for size in range(1, 50_000, 997):
        block = libc.malloc(size)
        ctypes.memset(block, size % 256, size)
        block = libc.realloc(block, 2 * size)
        assert ctypes.string_at(block, size) == bytes([size % 256]) * size
        libc.free(block)
    numbers = (ctypes.c_int * 1000)(*random.Random(1).sample(range(10_000), 1000))
    compare = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
    )
    libc.qsort(numbers, 1000, 4, compare(lambda a, b: a[0] - b[0]))
    assert list(numbers) == sorted(numbers)


def through_sqlite() -> None:
    db = sqlite3.connect(":memory:")
    db.execute("create table t(a integer, b text)")
    db.executemany("insert into t values(?, ?)", ((i, "x" * (i % 300)) for i in range(20_000)))
    assert db.execute("select sum(length(b)) from t").fetchone() == (
        sum(i % 300 for i in range(20_000)),
    )


def main() -> None:
    expected = [build(seed) for seed in range(6)]
    assert in_threads(range(6)) == expected
    assert in_processes(range(6), "fork") == expected
    assert in_processes(range(6), "spawn") == expected
    through_ctypes()
    through_sqlite()
    output = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, check=True)
    assert output.stdout == b"42\n"
    print("busy_script: all sums right")


if __name__ == "__main__":
    main()

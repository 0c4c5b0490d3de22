# SPDX-License-Identifier: Apache-2.0
"""A cache in Python with random eviction: entries of all sizes, replaced and dropped at random.

    cache.py [--peak MiB] [--churn N] [--wait]     prints one line of JSON, as load.cc does

Run it with PYTHONMALLOC=malloc, so that malloc sees every object.
"""

import argparse
import json
import random
import sys
import time

PER_ENTRY = 2600  # bytes of malloc that an entry holds, on average


def entry(numbers):
    """A record as a web server would keep: a dictionary, strings, a list of numbers."""
    size = 16 << numbers.randrange(7)
    return {
        "key": f"session-{numbers.random()}",
        "body": bytes(size),
        "times": [numbers.random() for _ in range(size // 16)],
        "parts": tuple(str(n) * 3 for n in range(numbers.randrange(8))),
    }


def main():
    """Fills, replaces, drops three of four, reports, waits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peak", type=int, default=128)
    parser.add_argument("--churn", type=int, default=2)
    parser.add_argument("--wait", action="store_true")
    options = parser.parse_args()
    numbers = random.Random(1)
    count = max(4, (options.peak << 20) // PER_ENTRY)
    start = time.monotonic()
    cache = [entry(numbers) for _ in range(count)]
    for _ in range(options.churn * count):
        cache[numbers.randrange(count)] = entry(numbers)
    churned = time.monotonic()
    numbers.shuffle(cache)
    del cache[count // 4 :]
    end = time.monotonic()
    print(json.dumps({"live": 0, "fill": churned - start, "drop": end - churned}), flush=True)
    if options.wait:
        sys.stdin.read()


main()

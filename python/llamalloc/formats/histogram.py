# SPDX-License-Identifier: Apache-2.0
"""The log histogram of a profile's lifetimes (contracts/profile_format.md, Histogram buckets).

Bucket b holds times t with floor(4 log2(t / 1 ns)) = b: four buckets a doubling, each 19 % wide.
10 ms lies in bucket 93, a second in 119, an hour in 166; 255 is more than 400 years.
"""

import math

Histogram = dict[int, int]
"""Bucket -> number of sampled objects, ascending by bucket, no zero counts."""

MAX_BUCKET = 255


def bucket_of(nanoseconds: float) -> int:
    """The bucket of a time in ns; times below 1 ns count as 1 ns."""
    return math.floor(4 * math.log2(max(nanoseconds, 1.0)))


def middle_ns(bucket: int) -> float:
    """The geometric middle of a bucket, in ns."""
    return 2.0 ** ((bucket + 0.5) / 4)


def parse(text: str) -> Histogram:
    """`"12:3 40:1"` as a histogram. Raises ValueError for what the format does not allow."""
    histogram: Histogram = {}
    previous = -1
    for item in text.split():
        bucket_text, colon, count_text = item.partition(":")
        if not (colon and bucket_text.isdecimal() and count_text.isdecimal()):
            raise ValueError(f"histogram entry {item!r} is not BUCKET:COUNT")
        bucket, count = int(bucket_text), int(count_text)
        if not previous < bucket <= MAX_BUCKET or count == 0:
            raise ValueError(f"histogram entry {item!r} is out of order or range")
        histogram[bucket] = count
        previous = bucket
    return histogram


def render(histogram: Histogram) -> str:
    """The inverse of `parse`."""
    return " ".join(f"{bucket}:{count}" for bucket, count in sorted(histogram.items()))


def total(histogram: Histogram) -> int:
    """How many sampled objects the histogram holds."""
    return sum(histogram.values())

# SPDX-License-Identifier: Apache-2.0
"""The profile behind contracts/golden/profile_v1.*: small, and every field in use."""

from pathlib import Path

from llamalloc.formats.profile import Context, Profile

_REQUEST = Context(
    frames=("zmalloc", "sdsnewlen", "createRawStringObject", "processInlineBuffer", "main"),
    bytes=1024,
    allocated_objects=6150,
    allocated_bytes=6297600,
    deallocated_objects=6145,
    deallocated_bytes=6292480,
    censored_objects=5,
    censored_bytes=5120,
    lifetimes={60: 3, 64: 1100, 65: 120, 80: 6},
    censored_ages={61: 1},
    numbers={
        "bytes": 1024,
        "sampled": 1230,
        "avg_lifetime": 74000,
        "stddev_lifetime": 51000,
        "min_lifetime": 33001,
        "max_lifetime": 1060000,
        "same_thread": 1229,
        "same_cpu": 1100,
    },
)
_STORED = Context(
    frames=("zmalloc", "dictAddRaw", "dbAdd", "setGenericCommand", "call", "main"),
    bytes=32,
    allocated_objects=327680,
    allocated_bytes=10485760,
    deallocated_objects=0,
    deallocated_bytes=0,
    censored_objects=327680,
    censored_bytes=10485760,
    censored_ages={125: 4, 140: 16},
    numbers={"bytes": 32, "sampled": 20},
)
_CXX = Context(
    frames=(
        "_Znwm",
        "_ZNSt6vectorIiSaIiEE17_M_realloc_insertIJRKiEEEvN9__gnu_cxx17__normal_iteratorIPiS1_EEDpOT_",
        "?redis-server+0x1a2b0",
        "?libfoo.so.1",
        "?",
    ),
    bytes=65536,
    allocated_objects=9,
    allocated_bytes=589824,
    deallocated_objects=9,
    deallocated_bytes=589824,
    censored_objects=0,
    censored_bytes=0,
    lifetimes={0: 1, 133: 8},
    numbers={
        "bytes": 65536,
        "sampled": 9,
        "avg_lifetime": 9200000000,
        "stddev_lifetime": 3100000000,
        "min_lifetime": 1,
        "max_lifetime": 10900000000,
        "same_thread": 0,
        "same_cpu": 2,
    },
)

PROFILE = Profile(
    path=Path("profile_v1.pb.gz"),
    program="redis-server",
    exiting=True,
    time_ns=1700000000123456789,
    duration_ns=60_000_000_000,
    sample_interval=524288,
    contexts=(_REQUEST, _STORED, _CXX),
)


def as_json(profile: Profile) -> dict:
    """What a twin must find in the file: names as in profile_format.md."""
    return {
        "program": profile.program,
        "exit": int(profile.exiting),
        "time_nanos": profile.time_ns,
        "duration_nanos": profile.duration_ns,
        "period": profile.sample_interval,
        "contexts": [_context(context) for context in profile.contexts],
    }


def _context(context: Context) -> dict:
    return {
        "frames": list(context.frames),
        "values": [
            context.allocated_objects,
            context.allocated_bytes,
            context.deallocated_objects,
            context.deallocated_bytes,
            context.censored_objects,
            context.censored_bytes,
        ],
        "labels": context.numbers,
        "lifetimes": [list(entry) for entry in context.lifetimes.items()],
        "censored_ages": [list(entry) for entry in context.censored_ages.items()],
    }

# SPDX-License-Identifier: Apache-2.0
"""A number for a function by its name (contracts/model_format.md, Names).

The twin of src/predict/frame_name_key.h.
"""

from functools import lru_cache

from llamalloc.formats.learned_state import hash_build_id

_WORD = (1 << 64) - 1


def lasting_part(name: str) -> str:
    """What of a frame name tells the function: compilers mark their copies behind a dot."""
    dot = -1 if name.startswith("?") else name.find(".", 1)
    return name if dot < 0 else name[:dot]


@lru_cache(maxsize=1 << 20)
def name_key(name: str) -> int:
    """The number of a function as a site, or on the way from one."""
    return hash_build_id(lasting_part(name).encode())


@lru_cache(maxsize=1 << 20)
def caller_key(name: str) -> int:
    """The number of a function as a caller; one without a name goes by its module."""
    module = name.rpartition("+0x")[0] or name
    part = module if name.startswith("?") else lasting_part(name)
    return ~hash_build_id(part.encode()) & _WORD

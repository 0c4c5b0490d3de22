# SPDX-License-Identifier: Apache-2.0
"""A number for a function by its name (contracts/model_format.md, Names).

The twin of src/predict/frame_name_key.h.
"""

from functools import lru_cache

from llamalloc.formats.learned_state import hash_build_id
from llamalloc.formats.tokens import MAX_NAME_BYTES

_WORD = (1 << 64) - 1


def lasting_part(name: str) -> str:
    """What of a frame name tells the function: compilers mark their copies behind a dot."""
    dot = -1 if name.startswith("?") else name.find(".", 1)
    return name if dot < 0 else name[:dot]


@lru_cache(maxsize=1 << 20)
def name_key(name: str) -> int:
    """The number of a function as a site, or on the way from one."""
    return _hash(lasting_part(name))


@lru_cache(maxsize=1 << 20)
def caller_key(name: str) -> int:
    """The number of a function as a caller; one without a name goes by its module."""
    if not name.startswith("?"):
        return ~name_key(name) & _WORD
    name = name[:MAX_NAME_BYTES]
    return ~_hash(name.rpartition("+0x")[0] or name) & _WORD


def _hash(name: str) -> int:
    return hash_build_id(name.encode()[:MAX_NAME_BYTES])

# SPDX-License-Identifier: Apache-2.0
"""A number for a function by its name (contracts/model_format.md, Names).

The twin of src/predict/frame_name_key.h.
"""

from functools import lru_cache

from llamalloc.formats.learned_state import hash_build_id

_WORD = (1 << 64) - 1


def lasting_part(name: str) -> str:
    """What of a frame name survives a rebuild."""
    if name.startswith("?"):
        return name.rpartition("+0x")[0] or name
    dot = name.find(".", 1)
    return name if dot < 0 else name[:dot]


@lru_cache(maxsize=1 << 20)
def name_key(name: str) -> int:
    """The number of a frame by its name."""
    return hash_build_id(lasting_part(name).encode())


@lru_cache(maxsize=1 << 20)
def caller_key(name: str) -> int:
    """The number under which a function is known as somebody's caller."""
    return ~name_key(name) & _WORD

# SPDX-License-Identifier: Apache-2.0
"""From a calling context to tokens: contracts/stack_tokens.md, the Python twin of tokens.cc.

    frames ["_ZN3foo10HTTPServer3runEv", "main"], size 100
    tokens  foo http server run  @  main  #112

Both twins reproduce contracts/golden/tokens.json exactly.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

MAX_NAME_BYTES = 511  # of a frame name; what follows does not count
MAX_FRAMES = 32
MAX_FRAME_TOKENS = 127
MAX_TOKENS = MAX_FRAME_TOKENS + 1
SEPARATOR = "@"
UNKNOWN = "<unk>"

_UNPRINTABLE = re.compile(rb"[^\x21-\x7e]")
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?=[A-Z][a-z])")
_NUMBER = re.compile(r"[1-9][0-9]*")
_MAX_DIGITS = 9


def size_bucket(size: int) -> int:
    """The size bucket in bytes of a request of `size` bytes (stack_tokens.md, The sequence)."""
    if size > 1 << 62:
        return 1 << 63
    size = max(size, 1)
    if size > 32768:
        return 1 << (size - 1).bit_length()
    step = 16 if size <= 128 else 1 << ((size - 1).bit_length() - 1 - 3)
    return -(-size // step) * step


def words(identifier: str) -> list[str]:
    """The lower-cased words of one identifier of printable ASCII characters."""
    parts = re.split(r"[^A-Za-z0-9]+", identifier)
    return [word.lower() for part in parts for word in _WORD_START.split(part) if word]


def _mangled_identifiers(name: str) -> Iterable[str]:
    """The length-prefixed identifiers of an Itanium-mangled name, found by a plain scan."""
    position = 0
    while match := _NUMBER.search(name, position):
        position = match.end()
        digits = match.group()
        length = int(digits) if len(digits) <= _MAX_DIGITS else len(name)
        if position + length <= len(name):
            yield name[position : position + length]
            position += length


@lru_cache(maxsize=65536)
def frame_tokens(name: str) -> tuple[str, ...]:
    """The tokens of one frame name; none for `_Znwm`, which holds no identifier."""
    text = name.encode("utf-8", "surrogatepass")[:MAX_NAME_BYTES]
    name = _UNPRINTABLE.sub(b"_", text).decode("ascii")
    if name.startswith("?"):
        module, plus, _ = name.rpartition("+0x")
        return (module, name) if plus else (name,)
    identifiers = _mangled_identifiers(name) if name.startswith("_Z") else [name]
    return tuple(word for identifier in identifiers for word in words(identifier))


def tokens(frames: Sequence[str], size: int) -> list[str]:
    """The token sequence, 1 to 128 long, of a context: frames innermost first, size in bytes."""
    sequence: list[str] = []
    for index, name in enumerate(frames[:MAX_FRAMES]):
        if index:
            sequence.append(SEPARATOR)
        sequence.extend(frame_tokens(name))
    return [*sequence[:MAX_FRAME_TOKENS], f"#{size_bucket(size)}"]

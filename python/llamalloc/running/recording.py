# SPDX-License-Identifier: Apache-2.0
"""What `record` does with a profile: validate the library's file, pack it well, sum it up.

The library writes gzip with stored blocks (it has no zlib) by renaming a finished file, so what
is at the path is always whole, also after a crash. We pack it again, again by renaming.
"""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

from llamalloc.formats import profile
from llamalloc.formats.units import bytes_text, seconds_text


def finish(path: Path) -> str:
    """Packs a recorded profile in place and returns one line on what was sampled.

    Raises profile.ProfileError if the file is missing or unusable; it is then left as it is.
    """
    found = profile.read(path)
    repack(path)
    sampled = sum(context.sampled for context in found.contexts)
    allocated = sum(context.allocated_bytes for context in found.contexts)
    survived = sum(context.censored_bytes for context in found.contexts)
    return (
        f"{path}: {sampled:,} objects sampled in {len(found.contexts):,} contexts over "
        f"{seconds_text(found.duration_ns / 1e9)}; about {bytes_text(allocated)} allocated, "
        f"{bytes_text(survived)} still alive at the end"
    )


def repack(path: Path) -> None:
    """Compresses a gzip file anew, best and reproducibly, and replaces it in one step."""
    with gzip.open(path) as file:
        data = gzip.compress(file.read(), compresslevel=9, mtime=0)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(path.stat().st_mode & 0o777)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

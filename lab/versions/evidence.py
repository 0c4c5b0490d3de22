# SPDX-License-Identifier: Apache-2.0
"""Contexts of a profile that keep both identities of a frame: its name, and where its code is.

    profile + its locations -> frames "NAME\\tBUILD+OFFSET" -> Dataset, pooled by both

A frame's place survives strip and is lost by a rebuild; its name survives a rebuild and may be lost
by strip. Libraries of the system keep both.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

import numpy as np

from llamalloc.formats import profile
from llamalloc.formats.pprof_proto import ProfileMessage
from llamalloc.formats.profile import Profile
from llamalloc.learning import dataset, labels
from llamalloc.learning.dataset import Dataset
from llamalloc.learning.survival import Lives

_JOIN = "\t"
# What compilers append to a name that they cloned or split, or that was local to a file.
_CLONE = re.compile(r"(\.(constprop|isra|part|lto_priv|cold|llvm|specialized)(\.\d+)*|\.\d+)+$")


def read(paths: Sequence[Path], rule: str) -> Dataset:
    """The pooled contexts of some profiles, labelled by `tail` or `p95`. Raises ProfileError."""
    return dataset.build([_placed(path) for path in paths], rule)


def steady(data: Dataset, rule: str) -> np.ndarray:
    """Whether the page group of a context stays if its longest-lived sample had not been seen."""
    groups = labels.GROUP_OF_CLASS
    without = [_without_longest(one) for one in data.lives]
    found = [
        one.total > 0 and groups[labels.label(one, rule)] == groups[known]
        for one, known in zip(without, data.classes, strict=True)
    ]
    return np.array(found, dtype=bool)


def _without_longest(lives: Lives) -> Lives:
    if lives.immortal:
        return replace(lives, immortal=lives.immortal - 1)
    last = max((*lives.young, *lives.dead))
    name = "young" if last in lives.young else "dead"
    left = Counter(getattr(lives, name)) - Counter({last: 1})
    elders = max(lives.elders - 1, 0) if name == "young" else lives.elders
    return replace(lives, **{name: dict(left)}, elders=elders)


def names(frames: Iterable[str]) -> tuple[str, ...]:
    """Frame names as in a profile."""
    return tuple(frame.partition(_JOIN)[0] for frame in frames)


def source_names(frames: Iterable[str]) -> tuple[str, ...]:
    """Frame names without what a compiler appended."""
    return tuple(_CLONE.sub("", name) for name in names(frames))


def places(frames: Iterable[str]) -> tuple[str, ...]:
    """Build-id and offset of each frame; its name where no module covers it."""
    return tuple(frame.partition(_JOIN)[2] or frame for frame in frames)


def pooled(some: Iterable[Lives]) -> Lives:
    """The samples of several contexts as of one."""
    return reduce(_both, some)


def _both(a: Lives, b: Lives) -> Lives:
    return Lives(
        dead=dict(Counter(a.dead) + Counter(b.dead)),
        young=dict(Counter(a.young) + Counter(b.young)),
        elders=a.elders + b.elders,
        immortal=a.immortal + b.immortal,
    )


def _placed(path: Path) -> Profile:
    """The profile with "NAME\\tPLACE" for every frame name."""
    found = profile.read(path)
    message = ProfileMessage.FromString(gzip.decompress(path.read_bytes()))
    place_of = _places(message)
    contexts = [
        replace(context, frames=_with_places(context.frames, sample.location_id, place_of))
        for context, sample in zip(found.contexts, message.sample, strict=True)
    ]
    return replace(found, contexts=tuple(contexts))


def _with_places(names: tuple[str, ...], ids: Sequence[int], place_of: dict[int, str]):
    return tuple(f"{n}{_JOIN}{place_of[i]}" for n, i in zip(names, ids, strict=True))


def _places(message) -> dict[int, str]:
    """Build-id and offset in the file by location; empty where no module is known."""
    modules = {mapping.id: mapping for mapping in message.mapping}
    strings = message.string_table
    found = {}
    for location in message.location:
        module = modules.get(location.mapping_id)
        if module is None:
            found[location.id] = ""
            continue
        identity = (strings[module.build_id] or strings[module.filename]).decode()
        offset = location.address - module.memory_start + module.file_offset
        found[location.id] = f"{identity}+{offset:x}"
    return found

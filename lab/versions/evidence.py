# SPDX-License-Identifier: Apache-2.0
"""Contexts of a profile that keep both identities of a frame: its name, and where its code is.

    profile -> frames "NAME\\tCODE" -> Dataset, pooled by both; a code stands for build and offset

A frame's place survives strip and is lost by a rebuild; its name survives a rebuild and may be lost
by strip. Libraries of the system keep both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from llamalloc.formats import frame_names, profile
from llamalloc.formats.profile import Context, Profile
from llamalloc.learning import dataset
from llamalloc.learning.contexts import Seen
from llamalloc.learning.dataset import Dataset

_JOIN = "\t"


def read(paths: Sequence[Path], rule: str) -> Dataset:
    """The pooled contexts of some profiles, labelled by `tail` or `p95`. Raises ProfileError."""
    return dataset.build([_placed(path) for path in paths], rule)


def names(frames: Iterable[str]) -> tuple[str, ...]:
    """Frame names as in a profile."""
    return tuple(frame.partition(_JOIN)[0] for frame in frames)


def source_names(frames: Iterable[str]) -> tuple[str, ...]:
    """Frame names without what a compiler appended."""
    return tuple(map(frame_names.lasting_part, names(frames)))


def seen(data: Dataset) -> list[Seen]:
    """The contexts as `train` makes tables of them."""
    return [
        Seen(codes_of(frames), names(frames), size, lives, weight, weight * size)
        for frames, size, lives, weight in zip(
            data.frames, data.sizes, data.lives, data.weights.tolist(), strict=True
        )
    ]


def codes_of(frames: Iterable[str]) -> tuple[int, ...]:
    """The number of each frame's build and offset (contracts/learned_state.md, Keys); 0: none."""
    return tuple(int(frame.partition(_JOIN)[2], 16) for frame in frames)


def _placed(path: Path) -> Profile:
    """The profile with "NAME\tCODE" for every frame name."""
    found = profile.read(path)
    contexts = [
        replace(context, frames=tuple(_joined(*one) for one in _frames(context)))
        for context in found.contexts
    ]
    return replace(found, contexts=tuple(contexts))


def _frames(context: Context) -> Iterable[tuple[str, int]]:
    return zip(context.frames, context.codes, strict=True)


def _joined(name: str, code: int) -> str:
    return f"{name}{_JOIN}{code:x}"

# SPDX-License-Identifier: Apache-2.0
"""Profiles to a dataset: contexts pooled over runs, labelled, weighted, tokenised.

    profiles -> rows (context, kind, bucket, count) -> pooled by polars -> Lives -> class
             -> ids, depths and counts of known tokens, padded [N, T]; size rows [N]

A context is (frame names, size bucket). Its weight is the estimated number of allocations.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from llamalloc.formats import histogram, tokens
from llamalloc.formats.model_file import size_row
from llamalloc.formats.profile import Context, Profile
from llamalloc.learning import labels
from llamalloc.learning.survival import Lives

VOCABULARY_SIZE = 5000
WIDTH_STEP = 16
_FRAME_JOIN = "\n"


@dataclass(frozen=True)
class Dataset:
    """N labelled contexts, by falling weight.

    `frames[i]` innermost first, `sizes[i]` the size bucket in bytes, `lives[i]` the pooled
    samples, `weights` [N] float64 estimated allocations, `classes` [N] int64.
    """

    frames: tuple[tuple[str, ...], ...]
    sizes: tuple[int, ...]
    lives: tuple[Lives, ...]
    weights: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.frames)

    def contexts(self) -> list[tuple[tuple[str, ...], int]]:
        """Frames and size bucket of every context."""
        return list(zip(self.frames, self.sizes, strict=True))

    def tokens(self) -> list[list[str]]:
        """The token sequence of every context (contracts/stack_tokens.md)."""
        return [tokens.tokens(frames, size) for frames, size in self.contexts()]

    def pick(self, indices: Iterable[int]) -> "Dataset":
        """The contexts at `indices`, in that order."""
        chosen = np.fromiter(indices, dtype=np.int64)
        return Dataset(
            tuple(self.frames[i] for i in chosen),
            tuple(self.sizes[i] for i in chosen),
            tuple(self.lives[i] for i in chosen),
            self.weights[chosen],
            self.classes[chosen],
        )


class Encoded(NamedTuple):
    """What the network sees: of each known token [N, T] its id int32, the depth of its frame int32
    and what it counts float32 (0: padding); `sizes` int32 [N], rows of the size bias."""

    ids: np.ndarray
    depths: np.ndarray
    counts: np.ndarray
    sizes: np.ndarray

    def pick(self, rows: np.ndarray) -> "Encoded":
        """The contexts `rows`, in that order."""
        return Encoded(*(values[rows] for values in self))


def build(
    profiles: Sequence[Profile],
    rule: labels.Rule | str = labels.Rule.TAIL,
    tail: float = labels.DEFAULT_TAIL,
) -> Dataset:
    """Pools the contexts of all profiles by what allocated and how much, and labels them."""
    pooled = _pool(profiles)
    lives = tuple(_lives(row) for row in pooled.iter_rows(named=True))
    classes = np.array([labels.label(one, rule, tail) for one in lives], dtype=np.int64)
    frames = tuple(tuple(s.split(_FRAME_JOIN)) if s else () for s in pooled["stack"])
    weights = np.maximum(pooled["weight"].to_numpy().astype(np.float64), 1.0)
    return Dataset(frames, tuple(pooled["size"]), lives, weights, classes)


_SCHEMA = {"stack": pl.String, "size": pl.UInt64, "kind": pl.String, "bucket": pl.Int64}
_SCHEMA |= {"count": pl.Int64, "weight": pl.Int64}


def _pool(profiles: Sequence[Profile]) -> pl.DataFrame:
    """One row a context: weight, and per kind of sample a list of (bucket, count)."""
    facts = [fact for profile in profiles for context in profile.contexts
             for fact in _facts(context, profile)]  # fmt: skip
    table = pl.DataFrame(facts, schema=_SCHEMA, orient="row")
    counts = table.group_by("stack", "size", "kind", "bucket").agg(pl.sum("count", "weight"))
    entry = pl.struct("kind", "bucket", "count").sort_by("kind", "bucket")
    contexts = counts.group_by("stack", "size").agg(pl.sum("weight"), entry.alias("entries"))
    return contexts.sort("weight", "stack", "size", descending=[True, False, False])


def _facts(context: Context, profile: Profile) -> Iterable[tuple]:
    """Rows of the long table: every histogram entry, and the weight once."""
    if context.sampled == 0:
        return
    names = (name.replace(_FRAME_JOIN, "_") for name in context.frames)
    key = (_FRAME_JOIN.join(names), context.bytes)
    yield (*key, "weight", 0, 0, context.allocated_objects)
    for bucket, count in context.lifetimes.items():
        yield (*key, "dead", bucket, count, 0)
    for bucket, count in context.censored_ages.items():
        elder = labels.is_elder(bucket, profile.duration_ns)
        kind = "young" if not elder else "immortal" if profile.exiting else "elder"
        yield (*key, kind, bucket, count, 0)


def _lives(row: dict) -> Lives:
    by_kind: dict[str, dict[int, int]] = {"dead": {}, "young": {}, "elder": {}, "immortal": {}}
    for entry in row["entries"]:
        if entry["kind"] != "weight":
            by_kind[entry["kind"]][entry["bucket"]] = entry["count"]
    still_open = Counter(by_kind["young"]) + Counter(by_kind["elder"])
    return Lives(
        dead=by_kind["dead"],
        young=dict(sorted(still_open.items())),
        elders=histogram.total(by_kind["elder"]),
        immortal=histogram.total(by_kind["immortal"]),
    )


def vocabulary(sequences: Iterable[Sequence[str]], size: int = VOCABULARY_SIZE) -> list[str]:
    """`<unk>`, `@`, then the most common tokens of frames over contexts; ties by name."""
    counts = Counter(token for sequence in sequences for token in sequence[:-1])
    special = [tokens.UNKNOWN, tokens.SEPARATOR]
    common = sorted(counts.keys() - set(special), key=lambda token: (-counts[token], token))
    return [*special, *common[: size - len(special)]]


def width(length: int) -> int:
    """The padded length of a sequence: few widths, for JAX compiles the model once for each."""
    return -(-length // WIDTH_STEP) * WIDTH_STEP


def encode(sequences: Sequence[Sequence[str]], vocabulary: Sequence[str]) -> Encoded:
    """What the network sees of token sequences, each of which ends with its size token."""
    numbers = {token: number for number, token in enumerate(vocabulary)}
    known = [list(_known_tokens(sequence[:-1], numbers)) for sequence in sequences]
    shape = (len(sequences), width(max(map(len, known), default=1) or 1))
    found = Encoded(
        np.zeros(shape, np.int32),
        np.zeros(shape, np.int32),
        np.zeros(shape, np.float32),
        np.array([size_row(int(sequence[-1][1:])) for sequence in sequences], np.int32),
    )
    for row, facts in enumerate(known):
        if facts:
            found.ids[row, : len(facts)], found.depths[row, : len(facts)] = zip(*facts, strict=True)
            in_frame = np.bincount(found.depths[row, : len(facts)])
            found.counts[row, : len(facts)] = in_frame[found.depths[row, : len(facts)]] ** -0.5
    return found


def _known_tokens(frames: Sequence[str], numbers: dict[str, int]) -> Iterable[tuple[int, int]]:
    """Id and depth of each token that is in the vocabulary and is no separator."""
    depth = 0
    for token in frames:
        if token == tokens.SEPARATOR:
            depth += 1
        elif number := numbers.get(token):
            yield number, depth


def split_by_context(data: Dataset, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Indices (kept, held out): about `share` held out, by a hash of context and seed.

    Both are non-empty from two contexts on, so that something can be learned and measured.
    """
    scores = [_hash(frames, size, seed) for frames, size in data.contexts()]
    order = sorted(range(len(data)), key=scores.__getitem__)
    held = order[: max(1, round(share * len(data)))] if len(data) > 1 else []
    return sorted(set(order) - set(held)), sorted(held)


def _hash(frames: tuple[str, ...], size: int, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}\n{size}\n{_FRAME_JOIN.join(frames)}".encode()).digest()

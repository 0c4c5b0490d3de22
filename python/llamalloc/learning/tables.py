# SPDX-License-Identifier: Apache-2.0
"""From contexts and kept nodes to the tables of a model file.

Seen, Kept --by code--> tree --> exact_*        --by name--> tree, callers --> name_*
"""

from collections.abc import Sequence

import numpy as np

from llamalloc.formats.frame_names import caller_key, name_key
from llamalloc.formats.learned_state import extend_key
from llamalloc.formats.model_file import MAX_NODES, OPEN, Evidence
from llamalloc.learning.context_tree import Answer, Leaf, Rule, grow, majority
from llamalloc.learning.contexts import Kept, Seen, add, total
from llamalloc.learning.lookup import SEARCHED_CALLERS

_MOST_SAMPLES = (1 << 32) - 1


def build(seen: Sequence[Seen], kept: Kept, rule: Rule) -> Evidence:
    """Both tables; trust and builds are not set."""
    exact = grow([_leaf(one, code_words(one), rule) for one in seen if one.codes], rule, kept)
    exact = {key: answer for key, answer in exact.items() if answer.byte != OPEN}
    named = _merged([_leaf(one, name_words(one), rule) for one in seen if one.frames], rule)
    names = grow(named, rule, _by_name(seen, kept))
    names |= _callers(seen, rule)
    exact_keys, exact_answers = _sorted(exact)
    name_keys, name_answers = _sorted(names)
    return Evidence(
        exact_keys=exact_keys,
        exact_answers=np.array([a.byte for a in exact_answers], np.uint8),
        exact_samples=_samples(exact_answers),
        name_keys=name_keys,
        name_answers=_pairs(name_answers),
        name_samples=_samples(name_answers),
    )


def code_words(seen: Seen) -> tuple[int, ...]:
    """What tells the context apart in its build."""
    return (seen.codes[0], seen.size, *seen.codes[1:])


def name_words(seen: Seen) -> tuple[int, ...]:
    """What tells the context apart in each build."""
    return (name_key(seen.frames[0]), seen.size, *map(name_key, seen.frames[1:]))


def _leaf(seen: Seen, words: tuple[int, ...], rule: Rule) -> Leaf:
    return Leaf(words, seen.lives, seen.allocations, rule.label(seen.lives))


def _merged(leaves: Sequence[Leaf], rule: Rule) -> list[Leaf]:
    """One leaf for each sequence of words: builds share names."""
    groups: dict[tuple[int, ...], list[Leaf]] = {}
    for leaf in leaves:
        groups.setdefault(leaf.words, []).append(leaf)
    merged = []
    for words, group in groups.items():
        lives = total(leaf.lives for leaf in group)
        merged.append(Leaf(words, lives, sum(leaf.weight for leaf in group), rule.label(lives)))
    return merged


def _by_name(seen: Sequence[Seen], kept: Kept) -> Kept:
    """What state files know of nodes whose names the profiles tell."""
    named, done = Kept(), set()
    if not kept.lives:
        return named
    for one in seen:
        key = name = None
        for word, name_word in (
            zip(code_words(one), name_words(one), strict=True) if (one.codes) else ()
        ):
            key, name = extend_key(key, word), extend_key(name, name_word)
            if key in done or key not in kept.lives:
                continue
            done.add(key)
            known = named.lives.get(name)
            lives = kept.lives[key]
            named.lives[name] = lives if known is None else add(known, lives)
            if key in kept.differs:
                named.differs.add(name)
    return named


def _callers(seen: Sequence[Seen], rule: Rule) -> dict[int, Answer]:
    """Of each function among the innermost frames: what most of its callees' objects are."""
    leaves: dict[int, list[Leaf]] = {}
    for one in seen:
        leaf = _leaf(one, (), rule)
        for frame in set(one.frames[:SEARCHED_CALLERS]):
            key = extend_key(None, caller_key(frame))
            leaves.setdefault(key, []).append(leaf)
            leaves.setdefault(extend_key(key, one.size), []).append(leaf)
    return {
        key: Answer(OPEN, majority(group), sum(leaf.lives.total for leaf in group))
        for key, group in leaves.items()
    }


def _sorted(answers: dict[int, Answer]) -> tuple[np.ndarray, list[Answer]]:
    """By key; the ones of most samples, where the file does not hold all."""
    keys = sorted(answers, key=lambda key: (-answers[key].samples, key))[:MAX_NODES]
    keys.sort()
    return np.array(keys, np.uint64), [answers[key] for key in keys]


def _pairs(answers: Sequence[Answer]) -> np.ndarray:
    """Answer and prior, [M, 2]."""
    return np.array([(one.byte, one.prior) for one in answers], np.uint8).reshape(-1, 2)


def _samples(answers: Sequence[Answer]) -> np.ndarray:
    return np.array([min(answer.samples, _MOST_SAMPLES) for answer in answers], np.uint32)

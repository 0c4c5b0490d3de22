# SPDX-License-Identifier: Apache-2.0
"""The tree of contexts: no deeper than they differ. The rules are those of src/learning/learner.h.

    words of a context   site, size, caller, caller ...     each a number (learned_state.md, Keys)
    a node               all contexts that begin with the same words
    its answer           a class, DEEPER, or OPEN: too few samples

A node is looked into unless all of its objects die young. Where its parts agree, it speaks for
them; a part that is not decided yet is not taken for short-lived, and where it seems to live long
what dies beside it is told apart. Contexts whose words end where those of others go on are a part,
too. A whole of which state files saw longer lives than its parts have speaks for itself.

Three rules are not the learner's: what dies at once is told apart from what dies within seconds,
also where objects are small; rule `p95` tells the parts of each node apart, since it leaves room
for some that live longer; and what only profiles saw is labelled by labels.py. What state files saw
is decided as the learner decides (evidence.py).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from llamalloc.formats.learned_state import extend_key
from llamalloc.formats.model_file import DEEPER, OPEN
from llamalloc.learning import evidence, labels
from llamalloc.learning.contexts import Kept, add, counts_of, total
from llamalloc.learning.evidence import ENOUGH_LONG, ENOUGH_SHORT
from llamalloc.learning.labels import CLASS_NAMES, GROUP_OF_CLASS, MIXED, NEVER
from llamalloc.learning.survival import Lives

MOST_LEVELS = 24
_SHORT = GROUP_OF_CLASS[0]
_PERMANENT = GROUP_OF_CLASS[NEVER]
_MAJORITY = 0.5


@dataclass(frozen=True)
class Leaf:
    """A context under its words; `label`: the class by its own samples, however few."""

    words: tuple[int, ...]
    lives: Lives
    weight: float
    label: int


@dataclass(frozen=True)
class Answer:
    """What is known of a node: `byte` as in the model file, `prior`: of most of its weight."""

    byte: int
    prior: int
    samples: int


@dataclass(frozen=True)
class Rule:
    """How classes follow from lives."""

    name: str = "tail"
    tail: float = labels.DEFAULT_TAIL

    def label(self, lives: Lives) -> int:
        """The class, however few samples there are."""
        return labels.label(lives, self.name, self.tail)

    @property
    def is_tail(self) -> bool:
        """Whether a short class of a node holds for each of its parts."""
        return self.name == labels.Rule.TAIL

    def verdict(self, lives: Lives, kept: bool = False) -> int | None:
        """The class, or None: too few samples. `kept`: state files saw some of them."""
        if kept and self.is_tail:
            found = evidence.verdict(counts_of(lives), self.tail)
            return None if found is None else CLASS_NAMES.index(found)
        if lives.total < ENOUGH_LONG:
            return None
        chosen = self.label(lives)
        few = lives.total < ENOUGH_SHORT and GROUP_OF_CLASS[chosen] != _PERMANENT
        return None if few else chosen


def grow(leaves: Sequence[Leaf], rule: Rule, kept: Kept | None = None) -> dict[int, Answer]:
    """Answers by key, from contexts and from nodes of state files."""
    grower = _Grower(rule, kept or Kept())
    for word, group in _by_word(leaves, 0).items():
        grower.node(extend_key(None, word), 1, group)
    grower.add_rest()
    return grower.answers


def majority(leaves: Sequence[Leaf]) -> int:
    """The class of most weight in the page group of most weight; mixed if that is below half."""
    weights = [0.0] * len(CLASS_NAMES)
    for leaf in leaves:
        weights[leaf.label] += leaf.weight
    groups: dict[int, float] = defaultdict(float)
    for number, weight in enumerate(weights):
        groups[GROUP_OF_CLASS[number]] += weight
    best = max(groups, key=groups.__getitem__)
    if groups[best] < _MAJORITY * sum(weights):
        return MIXED
    members = [c for c in range(len(CLASS_NAMES)) if GROUP_OF_CLASS[c] == best]
    return max(members, key=weights.__getitem__)


class _Grower:
    def __init__(self, rule: Rule, kept: Kept):
        self.rule = rule
        self.kept = kept
        self.answers: dict[int, Answer] = {}
        self.guesses: dict[int, str] = {}  # of those that are not decided

    def node(self, key: int, level: int, leaves: list[Leaf]) -> int:
        """Answers for the node and what is below it; returns its own."""
        lives = total(leaf.lives for leaf in leaves)
        kept = key in self.kept.lives
        if kept:
            lives = add(lives, self.kept.lives[key])
        verdict = self.rule.verdict(lives, kept)
        differed = key in self.kept.differs
        byte = OPEN if verdict is None else verdict
        if differed or (len(leaves) > 1 and not (self.rule.is_tail and _is_short(verdict))):
            byte = self._of_parts(key, level, leaves, byte, differed)
        self.answers[key] = Answer(byte, majority(leaves), lives.total)
        if byte == OPEN:
            self.guesses[key] = self._guess(lives)
        return byte

    def _guess(self, lives: Lives) -> str:
        """What too few samples seem to show: short, long, or neither."""
        if lives.total >= ENOUGH_LONG and evidence.dies_soon(self.rule.label(lives)):
            return "short"
        return "long" if evidence.lives_long(counts_of(lives)) else ""

    def _of_parts(self, key: int, level: int, leaves: list[Leaf], own: int, differed: bool) -> int:
        parts = _by_word(leaves, level) if level < MOST_LEVELS else {}
        heard = [self.node(extend_key(key, word), level + 1, part) for word, part in parts.items()]
        guesses = {self.guesses.get(extend_key(key, word), "") for word in parts}
        ending = total(leaf.lives for leaf in leaves if len(leaf.words) <= level)
        if heard and ending.total:
            verdict = self.rule.verdict(ending)
            heard.append(OPEN if verdict is None else verdict)
            guesses |= {self._guess(ending)} if verdict is None else set()
        decided = [byte for byte in heard if byte < OPEN]
        groups = {GROUP_OF_CLASS[byte] for byte in decided}
        if differed or DEEPER in heard or len(groups) > 1:
            return DEEPER
        some_die = evidence.dies_soon(max(decided)) if decided else "short" in guesses
        tells_apart = some_die and "long" in guesses
        if tells_apart and total(leaf.lives for leaf in leaves).total >= ENOUGH_SHORT:
            return DEEPER
        if not decided:
            return own
        longest = max(decided)
        if OPEN in heard and _is_short(longest):
            return DEEPER
        longer = longest < own < OPEN and GROUP_OF_CLASS[own] not in groups
        return own if longer else longest

    def add_rest(self) -> None:
        """Nodes of state files that no context of a profile leads to."""
        for key, lives in self.kept.lives.items():
            if key in self.answers or lives.total == 0:
                continue
            verdict = self.rule.verdict(lives, kept=True)
            byte = DEEPER if key in self.kept.differs else OPEN if verdict is None else verdict
            prior = self.rule.label(lives) if verdict is None else verdict
            self.answers[key] = Answer(byte, prior, lives.total)


def _by_word(leaves: Sequence[Leaf], level: int) -> dict[int, list[Leaf]]:
    """Those that go on, by their next word."""
    groups: dict[int, list[Leaf]] = {}
    for leaf in leaves:
        if len(leaf.words) > level:
            groups.setdefault(leaf.words[level], []).append(leaf)
    return groups


def _is_short(number: int | None) -> bool:
    return number is not None and number < OPEN and GROUP_OF_CLASS[number] == _SHORT

# SPDX-License-Identifier: Apache-2.0
"""Asks the tables of a model as the library does: the twin of src/predict/model_evidence.cc.

exact -> name -> site prior, or the network where it was right more often -> none
"""

from dataclasses import dataclass

from llamalloc.formats.frame_names import caller_key, name_key
from llamalloc.formats.learned_state import extend_key
from llamalloc.formats.model_file import DEEPER, NEARNESSES, OPEN, Evidence
from llamalloc.learning.labels import MIXED

KINDS = ("none", "exact", "name", "prior", "network")
NOTHING, CALLER, SITE, SITE_AND_CALLER = range(len(NEARNESSES))
SEARCHED_CALLERS = 8
TRUSTED = 0.5


@dataclass(frozen=True)
class Found:
    """A class and who says so. `nearness`: how much of the stack the names knew."""

    kind: str
    lifetime: int = MIXED
    nearness: int = NOTHING


class Lookup:
    """The tables of one model."""

    def __init__(self, evidence: Evidence):
        self.exact = dict(
            zip(evidence.exact_keys.tolist(), evidence.exact_answers.tolist(), strict=True)
        )
        self.names = dict(
            zip(
                evidence.name_keys.tolist(), map(tuple, evidence.name_answers.tolist()), strict=True
            )
        )
        self.prior_trust = evidence.prior_trust.tolist()
        self.network_trust = evidence.network_trust.tolist()

    def find(self, codes: tuple[int, ...], frames: tuple[str, ...], size: int) -> Found:
        """By all tables, in order."""
        exact = self.find_exact(codes, size)
        return exact or self.find_named(frames, size)

    def find_exact(self, codes: tuple[int, ...], size: int) -> Found | None:
        """By build and offset."""
        key = None
        for word in (*codes[:1], size, *codes[1:]) if codes else ():
            key = extend_key(key, word)
            answer = self.exact.get(key, OPEN)
            if answer == OPEN:
                return None
            if answer != DEEPER:
                return Found("exact", answer, SITE_AND_CALLER)
        return None

    def find_named(self, frames: tuple[str, ...], size: int) -> Found:
        """By function names: the table, else the prior if that is trusted."""
        key, prior, nearness = None, None, NOTHING
        words = (name_key(frames[0]), size, *map(name_key, frames[1:])) if frames else ()
        for level, word in enumerate(words, 1):
            key = extend_key(key, word)
            if key not in self.names:
                break
            answer, prior = self.names[key]
            nearness = SITE_AND_CALLER if level > 2 else SITE
            if answer < OPEN:
                return Found("name", answer, nearness)
            if answer != DEEPER:
                break
        if prior is None:
            prior, nearness = self._of_callers(frames, size)
        if prior is None or self.prior_trust[nearness] < TRUSTED:
            return Found("none", MIXED, nearness)
        return Found("prior", prior, nearness)

    def _of_callers(self, frames: tuple[str, ...], size: int) -> tuple[int | None, int]:
        for frame in frames[:SEARCHED_CALLERS]:
            key = extend_key(None, caller_key(frame))
            if key in self.names:
                sized = extend_key(key, size)
                return self.names[sized if sized in self.names else key][1], CALLER
        return None, NOTHING

    def asks_network(self, named: Found) -> bool:
        """Whether the network was right more often where as much of a stack was known."""
        trust = self.network_trust[named.nearness]
        better = trust > self.prior_trust[named.nearness]
        return named.kind not in ("exact", "name") and trust >= TRUSTED and better

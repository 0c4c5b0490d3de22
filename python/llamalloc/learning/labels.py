# SPDX-License-Identifier: Apache-2.0
"""From a context's lives to its lifetime class: what the model is taught of profiles.

What state files hold is decided as the learner in the process decides (evidence.py). It has the
same tail, but sees no end: it waits for more samples, and takes what lives long for staying only
where that is some classes above the longest life.

Rule `tail` (ours, DESIGN H2). A huge page holds about 5,000 small objects, so one outliver in
1,000 pins nearly every page. The class is therefore the shortest whose bound is outlived by at most
`tail` = 1e-4 of the objects. Reasoning, case by case:

* Few samples cannot show a tail of 1e-4. We then take the estimate as it is, so the class of the
  longest life that was seen; contexts with few samples do not all become `mixed`.
* Survival stays above `tail` after the last observation (a plateau), and every survivor is young:
  they were in flight when the recording ended. All that we know is that they may live as long
  as the oldest of them did, so that age decides.
* A plateau with survivors that had lived long (see `is_elder`), or that is most of the mass:
  these objects stay. The class is `never`, unless the others are a trap: most of the mass dies,
  and 95 % or more of what dies does so in a shorter page group than the permanent one. Such a
  context is `mixed`: no page is right for it, and the heap keeps it away from the trusted ones.
* The same trap without a plateau (a few die after 1,000 s) is `mixed` as well.

Rule `p95` (papers/000, section 5.1). The class that holds the 95th percentile of the lifetimes,
objects never freed counting as endless; `never` if they are what the percentile meets.
Never `mixed`.
"""

from enum import StrEnum

from llamalloc.formats import histogram
from llamalloc.formats.contracts import class_names, lifetime_classes, page_groups
from llamalloc.learning.survival import Lives, Survival, survival

DEFAULT_TAIL = 1e-4
_P95_OUTLIVING = 0.05
_MOST = 0.5
_ELDER_NS = 1e9
_ELDER_SHARE = 0.2

CLASS_NAMES = class_names()
NEVER = CLASS_NAMES.index("never")
MIXED = CLASS_NAMES.index("mixed")
BOUNDLESS = CLASS_NAMES.index("gt_1000s")
GROUP_OF_CLASS = tuple(
    [group.name for group in page_groups()].index(row.page_group) for row in lifetime_classes()
)
_BOUNDS = [row.upper_bound_ns for row in lifetime_classes()]
_BRIEF = [group.name for group in page_groups()].index("brief")


class Rule(StrEnum):
    """How a context's class is chosen from its survival."""

    TAIL = "tail"
    P95 = "p95"


def class_of_bucket(bucket: int) -> int:
    """The class that holds the geometric middle of a histogram bucket; a straddling one by that."""
    middle = histogram.middle_ns(bucket)
    return next((i for i, bound in enumerate(_BOUNDS) if bound and middle <= bound), BOUNDLESS)


def deadline_ns(label: int) -> int:
    """How long objects of the class may live before their page counts as wrong; 0: for ever."""
    return page_groups()[GROUP_OF_CLASS[label]].deadline_ns


def dies_soon(label: int) -> bool:
    """Whether objects of the class live some seconds at most."""
    return label != MIXED and GROUP_OF_CLASS[label] <= _BRIEF


def is_elder(bucket: int, duration_ns: int) -> bool:
    """Whether a survivor of this age had lived long: 1 s and 20 % of the recording, or more."""
    return histogram.middle_ns(bucket) >= max(_ELDER_NS, _ELDER_SHARE * duration_ns)


def label(lives: Lives, rule: Rule | str = Rule.TAIL, tail: float = DEFAULT_TAIL) -> int:
    """The class, an index into CLASS_NAMES, of a context with at least one sample.

    `tail`: the share of objects that may outlive the class, for rule `tail`; 0 < tail < 1.
    """
    curve = survival(lives)
    if Rule(rule) is Rule.P95:
        return _class_outlived_by(_P95_OUTLIVING, curve, lives)
    chosen = _class_outlived_by(tail, curve, lives)
    return MIXED if _is_trap(chosen, curve) else chosen


def _class_outlived_by(outliving: float, curve: Survival, lives: Lives) -> int:
    bucket = curve.quantile_bucket(outliving)
    if bucket is not None:
        return class_of_bucket(bucket)
    in_flight = not lives.elders and not lives.immortal and curve.plateau < _MOST
    return class_of_bucket(curve.last_bucket) if in_flight else NEVER


def _is_trap(chosen: int, curve: Survival) -> bool:
    """Most of the mass dies, nearly all of that before permanent pages would pay; some stays."""
    if GROUP_OF_CLASS[chosen] != GROUP_OF_CLASS[NEVER]:
        return False
    stays = curve.plateau
    early = curve.quantile_bucket(stays + _P95_OUTLIVING * (1.0 - stays))
    return stays < _MOST and GROUP_OF_CLASS[class_of_bucket(early)] != GROUP_OF_CLASS[chosen]

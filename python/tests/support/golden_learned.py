# SPDX-License-Identifier: Apache-2.0
"""What contracts/golden/learned_v2.learned holds; src/learning/learned_state_test.cc has it too."""

import random

from llamalloc.formats.learned_state import (
    CLASSES,
    NO_FIGURE,
    ROOT,
    Frame,
    Gate,
    GateVerdict,
    GateWaste,
    LearnedState,
    Node,
    code_key,
    hash_build_id,
    key_of,
)

BUILD = hash_build_id(bytes(range(20)))
SITE = code_key(BUILD, 0x1A2B3)
CALLER = code_key(BUILD, 0x4C5D6)
LOW_BUILD = BUILD & 0xFFFFFFFF
YOUNG = (1, 0, 0, 0, 5, 0, 0)

STATE = LearnedState(
    program=BUILD,
    name="redis-server",
    runs=3,
    gate=Gate(
        GateVerdict.HELPS,
        reversals=1,
        blind=GateWaste(rounds=2, high=61, low=186, depth=400, ratio=1466),
        placed=GateWaste(rounds=1, high=NO_FIGURE, low=48, depth=410, ratio=1117),
        peak=656,
    ),
    nodes=(
        Node(key_of(SITE, 64), 2, True, 0, (90, 0, 2, 0, 0, 0, 0), YOUNG, 4, key_of(SITE), 64),
        Node(key_of(SITE), 1, True, 0, (700, 0, 2, 0, 0, 0, 0), YOUNG, 4, ROOT, SITE),
        Node(
            key_of(SITE, 64, CALLER),
            3,
            unseen=1,
            young=(0, 0, 0, 0, 5, 0, 0),
            elders=4,
            parent=key_of(SITE, 64),
            word=CALLER,
        ),
    ),
    frames=(
        Frame(CALLER, 0x1111222233334445, 0x0A0B0C0D, 0, 0x01020304, 1, 2, 0x31, LOW_BUILD),
        Frame(SITE, 0x5555666677778889, 0, 0x0A0B0C0D, offset=0x25, build=LOW_BUILD),
    ),
    modules=0x0123456789ABCDEF,
)


def _evidence() -> list[Node]:
    """Corners first, then counts at random that differ by orders of magnitude."""
    nodes = [
        Node(1, 1, deaths=(deaths, 0, 0, few, 0, 0, 0), young=(0, 0, 0, 0, young, 0, 0), elders=e)
        for deaths in (0, 3, 4, 31, 32, 900, 9998, 20000)
        for few in (0, 1)
        for young in (0, 4, 1000)
        for e in (0, young)
    ]
    nodes += [  # a server that ran for hours
        Node(1, 1, deaths=(soon, 0, 0, 0, 0, late, last), young=(0, 0, 0, 0, 0, 0, old), elders=old)
        for soon, late, last, old in (
            (0, 0, 300, 700),
            (0, 1, 0, 999),
            (0, 1, 0, 2),
            (0, 1, 0, 1),
            (40, 1, 0, 999),
            (60, 1, 0, 999),
            (0, 0, 2, 0),
        )
    ]
    chance = random.Random(3)
    for _ in range(200):
        counts = [int(chance.random() < 0.4) * int(2 ** chance.uniform(0, 15)) for _ in range(14)]
        some = chance.randrange(sum(counts[7:]) + 1) * chance.randrange(2)
        nodes.append(
            Node(1, 1, False, 0, tuple(counts[:CLASSES]), tuple(counts[CLASSES:]), min(some, 65535))
        )
    return nodes


EVIDENCE = _evidence()

# SPDX-License-Identifier: Apache-2.0
"""What contracts/golden/learned_v1.learned holds; src/policy/learned_state_test.cc has it too."""

from llamalloc.formats.learned_state import (
    Gate,
    GateVerdict,
    LearnedState,
    Node,
    hash_build_id,
    key_of,
)

BUILD = hash_build_id(bytes(range(20)))
SITE = (BUILD, 0x1A2B3)
CALLER = (BUILD, 0x4C5D6)

STATE = LearnedState(
    program=BUILD,
    name="redis-server",
    runs=3,
    gate=Gate(GateVerdict.ON, rounds=2, blind_permille=1466, placed_permille=1117, runs=2),
    nodes=(
        Node(key_of([SITE, CALLER]), 2, unseen=1, young=(0, 0, 0, 0, 5, 0, 0), elders=4),
        Node(
            key_of([SITE]), 1, deaths=(700, 0, 2, 0, 0, 0, 0), young=(1, 0, 0, 0, 5, 0, 0), elders=4
        ),
    ),
)

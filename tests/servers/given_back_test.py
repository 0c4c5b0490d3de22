# SPDX-License-Identifier: Apache-2.0
"""What the counters say has gone back to the system leaves the charge of the control group.

lab.workloads.given_back measures how soon. Here it only has to leave: a huge page that is given
back in part and not split stays charged for ever.
"""

import time
from collections.abc import Callable

import pytest
from preload import library

from lab.workloads.given_back_watch import KINDS, Program, Sample, started
from llamalloc.running.memory_group import MemoryGroup

LIVE = 128  # MiB
SHARE = 0.95
SOON = "release_delay:200ms,release_forecast:none"


def look_until(program: Program, done: Callable[[Sample], bool], seconds: float = 30) -> Sample:
    """The first sample that is as wanted, or the last one that was waited for."""
    end = time.monotonic() + seconds
    while not done(sample := program.look()) and time.monotonic() < end:
        time.sleep(0.1)
    return sample


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_counted_as_given_back_leaves_the_charge(kind: str):
    with MemoryGroup.made("given_back") as group:
        if group is None:
            pytest.skip("no control group can be made here")
        with started(group, kind, LIVE, library(), SOON) as program:
            freed = program.free()

            def counted(sample: Sample) -> int:
                return getattr(sample.counted, kind)

            found = look_until(program, lambda sample: counted(sample) > 0.9 * freed)
            assert counted(found) > 0.9 * freed, found
            found = look_until(program, lambda s: s.left(kind, "charge") >= SHARE * counted(s), 10)
    assert found.left(kind, "charge") >= SHARE * counted(found), found

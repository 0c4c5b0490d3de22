# SPDX-License-Identifier: Apache-2.0
"""stress-ng: stressors that allocate, map, fork and thread, verifying what they wrote."""

from pathlib import Path

from harness import debian
from harness.suite import Command, Suite

STRESSORS = {
    "malloc": "--malloc 2 --malloc-ops 200000",
}


def commands(folder: Path) -> list[Command]:
    return [
        Command(name, ["stress-ng", *words.split(), "--verify", "--timeout", "60s"])
        for name, words in STRESSORS.items()
    ]


SUITE = Suite(
    what="stressors that allocate, with --verify",
    version=lambda: debian.version("stress-ng"),
    packages=("stress-ng",),
    commands=commands,
    probes=(("stress-ng", "--version"),),
)

# SPDX-License-Identifier: Apache-2.0
"""Whether clients that do harm delay the program: calls of malloc with and without them.

Interleaved rounds of three kinds. `elsewhere` is the control: the same clients at another process
under the library, so that the machine is just as busy.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lab.live.target import Calls, LiveProofError, Load
from lab.places import ROOT

KINDS = ("none", "elsewhere", "here")


@dataclass
class Harm:
    """Calls of malloc by kind of round."""

    clients: int
    rounds: dict[str, list[Calls]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    def median(self, kind: str, value: str) -> float:
        return statistics.median(getattr(calls, value) for calls in self.rounds[kind])

    def least(self, kind: str, value: str) -> float:
        return min(getattr(calls, value) for calls in self.rounds[kind])


@contextlib.contextmanager
def attacked(address: str, count: int) -> Iterator[None]:
    """So many clients there, all of them connected."""
    command = [sys.executable, "-m", "lab.live.clients", address, str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as clients:
        try:
            assert clients.stdout
            if int(clients.stdout.readline() or 0) < count / 2:
                raise LiveProofError(f"of {count} clients, less than half could connect")
            yield
        finally:
            clients.kill()


def measure(rounds: int, seconds: float, clients: int, say: Callable[[str], None]) -> Harm:
    """Runs the rounds, each kind first in turn."""
    harm = Harm(clients)
    with Load(0) as here, Load(0) as elsewhere:
        for turn in range(rounds):
            say(f"malloc beside {clients} harmful clients: round {turn + 1} of {rounds}")
            for kind in KINDS[turn % 3 :] + KINDS[: turn % 3]:
                there = {"here": here.address, "elsewhere": elsewhere.address}.get(kind)
                with attacked(there, clients) if there else contextlib.nullcontext():
                    harm.rounds[kind].append(here.measure(seconds))
    return harm

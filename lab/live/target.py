# SPDX-License-Identifier: Apache-2.0
"""A process under the library that is looked at: workloads/live/live_load.cc, or Redis."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from lab.places import BUILD, LIBRARY

PROGRAM = BUILD / "workloads" / "live_load"
SERVING = "llamalloc-ctl"  # the library's thread


class LiveProofError(RuntimeError):
    """Something could not be run; the message says what and why."""


def environment(conf: str) -> dict[str, str]:
    """This process's, with the library preloaded."""
    kept = {k: v for k, v in os.environ.items() if k not in {"LD_PRELOAD", "LLAMALLOC_CONF"}}
    return kept | {"LD_PRELOAD": str(LIBRARY), "LLAMALLOC_CONF": conf}


def get(address: str, path: str, timeout: float = 60.0) -> bytes:
    """The body of a page. Raises LiveProofError."""
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise LiveProofError(f"http://{address}{path}: {error}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise LiveProofError(f"http://{address}{path}: {response.status} {body[:200]!r}")
    return body


def thread_ms(pid: int, thread: int) -> float:
    """CPU time of a thread in ms (schedstat: ns on the processor)."""
    return int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0]) / 1e6


def serving_ms(pid: int) -> float:
    """The same of the library's thread that serves."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().strip() == SERVING:
            return thread_ms(pid, int(task.name))
    raise LiveProofError(f"process {pid} has no thread {SERVING}")


def process_ms(pid: int) -> float:
    """The same of all threads of a process."""
    return sum(thread_ms(pid, int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir())


@dataclass(frozen=True)
class Calls:
    """Calls of malloc: ns at the median, at 99.9 %, the longest; how many."""

    p50: int
    p999: int
    longest: int
    count: int


class Load:
    """live_load with a heap of so many bytes; `address` is where it serves HTTP."""

    def __init__(self, heap: int, conf: str = "") -> None:
        if not PROGRAM.exists():
            raise LiveProofError(f"{PROGRAM} is not built; run: make live-proof")
        self.process = subprocess.Popen(
            [PROGRAM, str(heap)], env=environment(f"http:127.0.0.1:0{conf}"), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._in, self._out, self._err = (
            self.process.stdin, self.process.stdout, self.process.stderr,
        )  # fmt: skip
        said = self._err.readline()
        found = re.search(r"listening on http://(.*)/$", said)
        if not found or self._out.readline() != "ready\n":
            self.process.kill()
            raise LiveProofError(f"live_load did not start: {said}{self._err.read()}".strip())
        self.address = found[1]

    def measure(self, seconds: float) -> Calls:
        """Its own calls of malloc, timed for so long."""
        self._in.write(f"time {seconds}\n")
        self._in.flush()
        line = self._out.readline()
        if not line:
            raise LiveProofError(f"live_load ended: {self._err.read()}")
        return Calls(*map(int, line.split()))

    def __enter__(self) -> Load:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

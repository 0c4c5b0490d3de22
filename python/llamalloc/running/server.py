# SPDX-License-Identifier: Apache-2.0
"""One program under load: started, waited for, watched while it lives, and ended.

    Server(command) -> wait_until(ready) -> (its load) -> stop or kill

A batch program is a server that nobody waits for. A launcher may stand before the program:
`llamalloc record`, valgrind or strace stay its parent, `llamalloc run` becomes it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from llamalloc.running import ending, listening, procmem

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25  # seconds; asking all the time keeps a core busy


class ServerError(RuntimeError):
    """The program did not start, died or complained; the message holds its last words."""


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def listens(port: int) -> bool:
    """Whether somebody takes connections on a port of 127.0.0.1."""
    with contextlib.closing(socket.socket()) as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def program_pid(pid: int) -> int:
    """The program behind a launcher: first children, as far down as there are any."""
    while children := procmem.read_text(f"/proc/{pid}/task/{pid}/children").split():
        pid = int(children[0])
    return pid


class Server:
    """A running program. `stderr` None: the file of `stdout` takes both."""

    def __init__(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None,
        stdout: Path,
        stderr: Path | None = None,
        inherit_stderr: bool = False,
    ) -> None:
        self.words = [str(word) for word in command]
        self.outputs = [stdout, *([stderr] if stderr else [])]
        with contextlib.ExitStack() as files:
            out, *err = [files.enter_context(path.open("wb")) for path in self.outputs]
            self.process = subprocess.Popen(
                self.words,
                env=None if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err[0] if err else None if inherit_stderr else subprocess.STDOUT,
            )

    def wait_until(self, ready: Callable[[], bool], patience: float, name: str = "") -> None:
        """Returns when it takes requests. Raises ServerError if it ends before, or is too slow."""
        name = name or Path(self.words[0]).name
        deadline = time.monotonic() + patience
        pause = _FIRST_PAUSE
        while not ready():
            if (status := self.process.poll()) is not None:
                raise ServerError(f"{name} ended with {status} at its start; {self.last_words()}")
            if time.monotonic() > deadline:
                raise ServerError(
                    f"{name} takes no requests after {patience:.0f} s; {self.last_words()}"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def wait(self, patience: float | None) -> int | None:
        """Its exit status; None if it has not ended by itself after `patience` seconds."""
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Asks it to end."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self, patience: float = 0.0) -> None:
        """Ends it and what it started, workers and what is behind a launcher, whatever state they
        are in."""
        if self.process.poll() is not None:
            return
        family = {pid: procmem.start_of(pid) for pid in listening.family(self.process.pid)}
        if patience:
            self.process.terminate()
        if not patience or self.wait(patience) is None:
            ending.kill(self.process)
        for pid, start in family.items():
            if start and procmem.start_of(pid) == start:  # else another process has its number
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def output(self) -> str:
        """All that it wrote."""
        return "".join(p.read_text(errors="replace") for p in self.outputs if p.exists())

    def last_words(self) -> str:
        """The end of its output, for a message."""
        lines = [line for line in self.output().splitlines() if line.strip()]
        return "it said: " + (" / ".join(lines[-4:]) or "nothing")

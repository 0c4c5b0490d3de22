# SPDX-License-Identifier: Apache-2.0
"""One redis-server of our own: start on a free port, ask INFO, stop, and judge what it logged."""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import time
from pathlib import Path

from llamalloc.demo.plan import SERVER_CONF

# Warnings of a healthy server about the machine, not about itself.
_HARMLESS = (
    "oO0OoO0OoO0Oo",
    "Redis version=",
    "Configuration loaded",
    "WARNING The TCP backlog",
    "WARNING Memory overcommit",
    "WARNING overcommit_memory",
    "WARNING You have Transparent Huge Pages",
    "Server initialized",
    "User requested shutdown",
    "Redis is now ready to exit",
    "objects sampled in",  # what `llamalloc record` says at its end
)
_LOUD = re.compile(r"^\d+:[A-Za-z-]+ .*? # |BUG REPORT|crashed|Segmentation|llamalloc:")


class ServerError(RuntimeError):
    """The server did not start, died or complained; the message holds its last words."""


class Client:
    """A persistent connection that asks INFO. Not for two threads at once."""

    def __init__(self, port: int, timeout: float = 60.0) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self._stream = self._socket.makefile("rb")

    def info(self, section: str = "memory") -> dict[str, str]:
        """INFO of a section as a dict of its lines."""
        self._socket.sendall(b"INFO %s\r\n" % section.encode())
        head = self._stream.readline()
        if not head.startswith(b"$"):
            raise ServerError(f"INFO answered {head[:80]!r}")
        body = self._stream.read(int(head[1:]) + 2).decode()
        return dict(line.split(":", 1) for line in body.splitlines() if ":" in line)

    def shutdown(self) -> None:
        """Asks the server to end without saving; it closes the connection."""
        self._socket.sendall(b"SHUTDOWN NOSAVE\r\n")
        self._stream.read()

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class Server:
    """A running redis-server; `argv` may be prefixed by a launcher that execs or forks it."""

    def __init__(self, prefix: list[str], env: dict[str, str], folder: Path, name: str) -> None:
        self.port = free_port()
        self.log = folder / f"{name}.log"
        self.stderr = folder / f"{name}.stderr"
        self.log.unlink(missing_ok=True)
        argv = [*prefix, "redis-server", str(SERVER_CONF), "--port", str(self.port)]
        argv += ["--dir", str(folder), "--logfile", str(self.log)]
        with self.stderr.open("wb") as err:
            self.process = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=err, stderr=err
            )
        try:
            self.client = self._connect()
            self.pid = int(self.client.info("server")["process_id"])
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _connect(self, patience: float = 20.0) -> Client:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                return Client(self.port)
            except OSError:
                time.sleep(0.02)
        raise ServerError(f"redis-server did not start: {self.last_words()}")

    def last_words(self) -> str:
        """The end of its stderr and log, for a message."""
        texts = [p.read_text(errors="replace") for p in (self.stderr, self.log) if p.exists()]
        return " / ".join(line for t in texts for line in t.splitlines()[-4:]) or "(nothing said)"

    def stop(self, patience: float = 60.0) -> list[str]:
        """Ends the server and returns what was wrong with it: empty if nothing."""
        with contextlib.suppress(OSError):
            self.client.shutdown()
        self.client.close()
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return [f"redis-server did not end within {patience:.0f} s"]
        faults = [f"redis-server ended with {status}"] if status else []
        return faults + self.complaints()

    def has_ended(self, patience: float = 2.0) -> bool:
        """Whether it has ended by itself, given a moment to do so."""
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """Ends it at once, whatever state it is in."""
        self.process.kill()
        self.process.wait()

    def complaints(self) -> list[str]:
        """Error lines of its log, and all that it or its allocator wrote to stderr."""
        logged = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        said = self.stderr.read_text(errors="replace").splitlines()
        said = [line for line in said if line.strip() and not _is_harmless(line)]
        return [line for line in logged if is_error(line)] + said


def is_error(line: str) -> bool:
    """Whether a line of Redis's log at level '#' tells of more than the machine's settings."""
    return bool(_LOUD.search(line)) and not _is_harmless(line)


def _is_harmless(line: str) -> bool:
    return any(words in line for words in _HARMLESS)

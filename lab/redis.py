# SPDX-License-Identifier: Apache-2.0
"""One redis-server of our own: its command, its INFO, its end, and a verdict on what it logged."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Sequence
from pathlib import Path

from lab.places import WORKLOADS
from llamalloc.running.server import Server, ServerError, free_port

SERVER_CONF = WORKLOADS / "redis" / "server.conf"
_PATIENCE = 20.0  # seconds that it may take to start

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


Address = int | Path  # a port of 127.0.0.1, or a Unix socket


def command(address: Address, folder: Path) -> list[str]:
    """redis-server with workloads/redis/server.conf, on `address`, its files in `folder`."""
    if isinstance(address, int):
        where = ["--port", str(address)]
    else:
        where = ["--port", "0", "--unixsocket", str(address)]
    return ["redis-server", str(SERVER_CONF), *where, "--dir", str(folder)]


def accepts(address: Address) -> bool:
    """Whether a server takes connections there."""
    try:
        Client(address).close()
    except OSError:
        return False
    return True


def most_live(address: Address) -> int:
    """The most bytes that Redis counted as used at any time. Raises OSError, ServerError."""
    client = Client(address)
    try:
        return int(client.info()["used_memory_peak"])
    finally:
        client.close()


class Client:
    """A persistent connection that asks INFO. Not for two threads at once."""

    def __init__(self, address: Address, timeout: float = 60.0) -> None:
        self._socket = _connected(address, timeout)
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


def _connected(address: Address, timeout: float) -> socket.socket:
    if isinstance(address, int):
        return socket.create_connection(("127.0.0.1", address), timeout=timeout)
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(timeout)
    found.connect(str(address))
    return found


class RedisServer(Server):
    """A running redis-server with a client; `prefix` may be a launcher."""

    def __init__(
        self,
        prefix: list[str],
        env: dict[str, str],
        folder: Path,
        name: str,
        address: Address | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.address = address or free_port()
        folder = folder.absolute()  # redis-server goes there before it opens its log
        self.log = folder / f"{name}.log"
        self.stderr = folder / f"{name}.stderr"
        self.log.unlink(missing_ok=True)
        words = [*prefix, *command(self.address, folder), "--logfile", str(self.log), *options]
        super().__init__(words, env, self.stderr)
        self.outputs.append(self.log)
        try:
            self.wait_until(lambda: accepts(self.address), _PATIENCE, "redis-server")
            self.client = Client(self.address)
            self.pid = int(self.client.info("server")["process_id"])
        except BaseException:
            self.kill()
            raise

    def stop(self, patience: float = 60.0) -> list[str]:
        """Ends the server and returns what was wrong with it: empty if nothing."""
        with contextlib.suppress(OSError):
            self.client.shutdown()
        self.client.close()
        if (status := self.wait(patience)) is None:
            self.kill()
            return [f"redis-server did not end within {patience:.0f} s"]
        faults = [f"redis-server ended with {status}"] if status else []
        return faults + self.complaints()

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

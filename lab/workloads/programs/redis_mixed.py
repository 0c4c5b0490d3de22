# SPDX-License-Identifier: Apache-2.0
"""Redis under waves of SET, EXPIRE, LPUSH, LRANGE and DEL, with values of 10 bytes to 60 KB."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterable, Iterator

from lab.workloads.programs.redis import RedisServer
from lab.workloads.recipe import Session, WorkloadError

_DATA = random.Random(7).randbytes(64 << 10)
_TOGETHER = 200  # commands sent before their replies are read
_READERS = 50  # connections that ask for lists at the same time


def encoded(*words: str | bytes | int) -> bytes:
    """One command in the Redis protocol."""
    parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    head = b"*%d\r\n" % len(parts)
    return head + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Connection:
    """Sends commands in batches and reads as many replies."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._stream = self._socket.makefile("rb", buffering=1 << 16)

    def run(self, commands: Iterable[bytes]) -> None:
        """All of them, `_TOGETHER` at a time."""
        batch: list[bytes] = []
        for command in commands:
            batch.append(command)
            if len(batch) == _TOGETHER:
                self.send(*batch)
                self.receive(len(batch))
                batch.clear()
        self.send(*batch)
        self.receive(len(batch))

    def send(self, *commands: bytes) -> None:
        """Without waiting for replies."""
        self._socket.sendall(b"".join(commands))

    def receive(self, count: int) -> None:
        """Reads replies. Raises WorkloadError for an error among them."""
        for _ in range(count):
            self._reply()

    def _reply(self) -> None:
        line = self._stream.readline()
        kind, rest = line[:1], line[1:].strip()
        if kind == b"-" or not line:
            raise WorkloadError(f"redis-server answered {line!r}")
        if kind == b"$" and rest != b"-1":
            self._stream.read(int(rest) + 2)
        elif kind == b"*" and rest != b"-1":
            self.receive(int(rest))

    def close(self) -> None:
        """Ends the connection."""
        self._stream.close()
        self._socket.close()


class RedisMixed(RedisServer):
    """Three waves; each leaves less than it made."""

    name = "redis-mixed"
    title = "redis-server under waves of SET, EXPIRE, LPUSH, LRANGE, DEL with values of all sizes"
    memory = "three waves to about 400 MB; a third expires, a third is deleted, the rest stays"
    seconds = 35

    def load(self, session: Session) -> None:
        """Waves of rising and falling memory."""
        connection = Connection(session.port)
        for wave in range(3):
            session.say(f"wave {wave + 1} of 3")
            numbers = session.random(wave)
            keys = session.scaled(150_000, 300)
            connection.run(_sets(numbers, wave, keys))
            connection.run(_lists(numbers, wave, session.scaled(400, 5)))
            _read_lists(session, numbers, wave)
            time.sleep(3 * min(1.0, session.scale))
            connection.run(_deletes(numbers, wave, keys))
        connection.close()


def _value(numbers: random.Random, middle: float = 6.5) -> bytes:
    size = max(10, min(60_000, int(numbers.lognormvariate(middle, 1.2))))
    at = numbers.randrange(len(_DATA) - size)
    return _DATA[at : at + size]


def _sets(numbers: random.Random, wave: int, keys: int) -> Iterator[bytes]:
    for key in range(keys):
        name = f"wave:{wave}:{key}"
        if numbers.random() < 0.3:
            yield encoded("SET", name, _value(numbers), "PX", numbers.randrange(500, 4_000))
        else:
            yield encoded("SET", name, _value(numbers))
        if numbers.random() < 0.2:
            again = f"wave:{wave}:{numbers.randrange(key + 1)}"
            yield encoded("APPEND", again, _value(numbers, 4.0))
        if numbers.random() < 0.05:
            yield encoded("PEXPIRE", f"wave:{wave}:{numbers.randrange(key + 1)}", 2_000)


def _lists(numbers: random.Random, wave: int, lists: int) -> Iterator[bytes]:
    for number in range(lists):
        for _ in range(100):
            yield encoded("LPUSH", f"list:{wave}:{number}", _value(numbers, 5.0))


def _read_lists(session: Session, numbers: random.Random, wave: int) -> None:
    """Many connections ask at once, so that replies queue up in the server."""
    readers = [Connection(session.port) for _ in range(session.scaled(_READERS, 3))]
    lists = session.scaled(400, 5)
    for _ in range(session.scaled(8)):
        for reader in readers:
            for _ in range(5):
                reader.send(encoded("LRANGE", f"list:{wave}:{numbers.randrange(lists)}", 0, -1))
        for reader in readers:
            reader.receive(5)
    for reader in readers:
        reader.close()


def _deletes(numbers: random.Random, wave: int, keys: int) -> Iterator[bytes]:
    order = list(range(keys))
    numbers.shuffle(order)
    for key in order[: keys * 7 // 10]:
        yield encoded("DEL", f"wave:{wave}:{key}")

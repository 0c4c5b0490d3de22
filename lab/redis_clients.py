# SPDX-License-Identifier: Apache-2.0
"""Many connections to one redis-server, each with one request under way.

redis-benchmark chooses its keys at random; here each key is set once, and deleted once.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from llamalloc.running.server import ServerError

_PATIENCE = 60.0  # seconds without any reply


def sets(keys: Iterable[int], size: int) -> Iterator[bytes]:
    """SET of each key, with a value of so many bytes."""
    value = b"$%d\r\n%s\r\n" % (size, b"x" * size)
    return (b"*3\r\n$3\r\nSET\r\n$16\r\nkey:%012d\r\n%s" % (key, value) for key in keys)


def deletes(keys: Iterable[int]) -> Iterator[bytes]:
    """DEL of each key."""
    return (b"*2\r\n$3\r\nDEL\r\n$16\r\nkey:%012d\r\n" % key for key in keys)


def send(port: int, connections: int, requests: Iterator[bytes]) -> float:
    """Seconds from the first request to the last reply, over connections of its own.

    Raises ServerError for a reply that is an error, and where no reply comes.
    """
    with ExitStack() as stack:
        poll = stack.enter_context(select.epoll())
        files = [_connected(stack, port).fileno() for _ in range(connections)]
        began = time.monotonic()
        waiting = 0
        for file, request in zip(files, requests, strict=False):
            os.write(file, request)
            poll.register(file, select.EPOLLIN)
            waiting += 1
        while waiting:
            waiting -= _answered(poll, requests)
        return time.monotonic() - began


def _connected(stack: ExitStack, port: int) -> socket.socket:
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), _PATIENCE))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(True)
    return connection


def _answered(poll: select.epoll, requests: Iterator[bytes]) -> int:
    """Sends the next request where a reply came; how many connections have none left."""
    ready = poll.poll(_PATIENCE)
    if not ready:
        raise ServerError(f"redis-server did not answer for {_PATIENCE:.0f} s")
    done = 0
    for file, _ in ready:
        reply = os.read(file, 256)
        if not reply:
            raise ServerError("redis-server closed the connection")
        if reply[:1] not in (b"+", b":"):
            raise ServerError(f"redis-server answered {reply[:80]!r}")
        if request := next(requests, None):
            os.write(file, request)
        else:
            poll.unregister(file)
            done += 1
    return done

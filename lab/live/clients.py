# SPDX-License-Identifier: Apache-2.0
"""Clients that do harm, all at once, as long as they are not ended.

    python -m lab.live.clients 127.0.0.1:9109 1000

A quarter each: half open (connects and says nothing), slow (a byte of a request now and then),
malformed (no HTTP), and asking for a long document without reading it. Who is sent away comes back.
Prints a line each second: how many are connected.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import time

_TICK = 0.2  # seconds
_SLOW = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + 900 * b"x"
_ASKING = b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
_WRONG = (b"\x16\x03\x01\x02\x00\x01\xfc\n\n", b"GET\n\n", b"\0" * 5000, b"POST / HTTP/1.1\n\n")
KINDS = ("half open", "slow", "malformed", "not reading")


class Client:
    """One of them. Never waits."""

    def __init__(self, address: tuple[str, int], number: int) -> None:
        self._address, self._kind = address, number % len(KINDS)
        self._wrong = itertools.cycle(_WRONG)
        self._socket: socket.socket | None = None
        self._sent = 0

    def is_connected(self) -> bool:
        return self._socket is not None

    def step(self) -> None:
        try:
            self._come() if self._socket is None else self._go_on(self._socket)
        except BlockingIOError:
            pass
        except OSError:
            self.leave()

    def leave(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None

    def _come(self) -> None:
        self._socket = socket.socket()
        self._socket.setblocking(False)
        if self._kind == 3:  # no room for what it does not read
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self._sent = 0
        self._socket.connect_ex(self._address)

    def _go_on(self, to: socket.socket) -> None:
        if self._kind == 1 and self._sent < len(_SLOW):
            self._sent += to.send(_SLOW[self._sent : self._sent + 1])
        elif self._kind == 2 and not self._sent:
            self._sent += to.send(next(self._wrong))
        elif self._kind == 3:
            if not self._sent:
                self._sent += to.send(_ASKING)
            to.send(b"")
            with contextlib.suppress(BlockingIOError):
                if not to.recv(1, socket.MSG_PEEK):
                    self.leave()
            return
        if not to.recv(4096):
            self.leave()


def main(argv: list[str]) -> int:
    host, _, port = argv[0].rpartition(":")
    clients = [Client((host, int(port)), i) for i in range(int(argv[1]))]
    said = time.monotonic()
    while True:
        began = time.monotonic()
        for client in clients:
            client.step()
        if began - said >= 1:
            said = began
            print(sum(c.is_connected() for c in clients), flush=True)
        time.sleep(max(0.0, _TICK - (time.monotonic() - began)))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main(sys.argv[1:])

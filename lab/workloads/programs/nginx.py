# SPDX-License-Identifier: Apache-2.0
"""nginx serves compressed files to waves of clients."""

from __future__ import annotations

import asyncio
import random
import socket

from lab.places import WORKLOADS
from lab.workloads.recipe import Recipe, Session, WorkloadError

_WORDS = [random.Random(n).randbytes(2 + n % 7).hex() for n in range(500)]
_FILES = 60

# (clients at once, requests of each)
_WAVES = ((20, 60), (600, 8), (50, 40), (1000, 6), (10, 60))


class Nginx(Recipe):
    """One process, the files compressed as they are sent."""

    name = "nginx"
    title = "nginx serves files through gzip to 10, 600 and 1,000 clients at once"
    memory = "pools of connections and requests, 260 KB of a compressor for each reply"
    packages = ("nginx-light",)
    programs = ("nginx",)
    seconds = 30

    def prepare(self, session: Session) -> None:
        """The files to serve, and the configuration with the run's paths in it."""
        files = session.folder / "files"
        files.mkdir()
        numbers = session.random()
        for n in range(_FILES):
            words = int(2 ** numbers.uniform(7, 15.5))
            (files / f"{n}.html").write_text(" ".join(numbers.choices(_WORDS, k=words)))
        conf = (WORKLOADS / "nginx" / "nginx.conf").read_text()
        conf = conf.replace("@FOLDER@", str(session.folder)).replace("@PORT@", str(session.port))
        (session.folder / "nginx.conf").write_text(conf)

    def command(self, session: Session) -> list[str]:
        """In the foreground, without a master process."""
        folder = session.folder
        error_log = str(folder / "error.log")
        return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", error_log]

    def ready(self, session: Session) -> bool:
        """Whether it accepts connections."""
        try:
            socket.create_connection(("127.0.0.1", session.port), timeout=5).close()
        except OSError:
            return False
        return True

    def load(self, session: Session) -> None:
        """Waves of clients."""
        asyncio.run(_waves(session))


async def _waves(session: Session) -> None:
    for number, (clients, requests) in enumerate(_WAVES):
        clients = session.scaled(clients, 4)
        session.say(f"wave {number + 1} of {len(_WAVES)}: {clients} clients")
        crowd = (_client(session.port, session.random(number, c), requests) for c in range(clients))
        await asyncio.gather(*crowd)


async def _client(port: int, numbers: random.Random, requests: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(requests):
        path = f"/{int(numbers.triangular(0, _FILES - 1, 0))}.html?q={numbers.getrandbits(60):x}"
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\n"
            f"Cookie: session={numbers.getrandbits(800):x}\r\n\r\n".encode()
        )
        await _response(reader)
    writer.close()


async def _response(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        raise WorkloadError(f"nginx answered {head[:60]!r}")
    if b"chunked" not in head:
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        await reader.readexactly(int(length))
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readexactly(2)

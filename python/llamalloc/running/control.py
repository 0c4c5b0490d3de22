# SPDX-License-Identifier: Apache-2.0
"""Talks to a running process through the library's control socket (contracts/control_protocol.md).

One line out, one reply up to end of file: "ok\\n" and a payload, or "error: REASON\\n".
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any


class ControlError(RuntimeError):
    """No such socket, nobody behind it, or the process refused; the message says which."""


def ask(path: Path, line: str, timeout: float = 30.0) -> str:
    """Sends one line and returns what follows "ok". Raises ControlError."""
    reply = _exchange(path, line, timeout)
    head, _, payload = reply.partition("\n")
    if head == "ok":
        return payload
    raise ControlError(f"{path}: {head or 'the process closed the connection without a reply'}")


def stats(path: Path) -> dict[str, Any]:
    """The statistics of the process behind the socket."""
    return json.loads(ask(path, "stats"))


def release(path: Path) -> dict[str, int]:
    """Bytes that the process gave back to the system for this: total, and each of its parts."""
    total, *parts = ask(path, "release").split("\n")[:-1]
    return {"total": int(total)} | {name: int(n) for name, n in (part.split() for part in parts)}


def _exchange(path: Path, line: str, timeout: float) -> str:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(str(path))
            connection.sendall(os.fsencode(line) + b"\n")
            with connection.makefile("rb") as stream:
                return os.fsdecode(stream.read())
    except FileNotFoundError:
        raise ControlError(
            f"{path}: no such socket; start the program by llamalloc run --control {path}"
        ) from None
    except ConnectionRefusedError:
        raise ControlError(f"{path}: nobody listens; the process has ended") from None
    except OSError as error:
        raise ControlError(f"{path}: {error.strerror or error}") from None

# SPDX-License-Identifier: Apache-2.0
"""What a running process does with its memory: one look at it, and the difference of two.

A process is named by its PID (running/published.py, nothing has to be prepared) or by the address
where it serves HTTP (docs/http.md). Call sites are known only with HTTP, which samples.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import time
import zlib
from dataclasses import dataclass, field
from typing import Any

from llamalloc.running import charge, published
from llamalloc.running.procmem import PROC, read_memory, read_text

_OWN = ("allocated", "huge_pages_acquired", "huge_pages_released")
RATES = (*_OWN, "samples", "promotions", "demotions", "outlivers")


class LiveError(RuntimeError):
    """The process cannot be looked at; the message says why and what to do."""


class BusyError(LiveError):
    """It serves too many others just now; the next look may succeed."""


# What the answers of a wrong or broken server may raise.
_UNREADABLE = (
    ArithmeticError, EOFError, LookupError, OSError, TypeError, ValueError, zlib.error,
    http.client.HTTPException,
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """A process at one moment. Sizes in bytes; None where the system does not say."""

    pid: int
    command: str
    seconds: float  # of a clock, for rates
    stats: dict[str, int]
    groups: list[dict[str, Any]]
    gate: str = ""
    placement: bool = False
    address: str = ""
    rss: int | None = None
    huge: int | None = None
    charge: int | None = None
    sites: dict[str, int] = field(default_factory=dict)  # bytes in use, by frame name

    @property
    def coverage(self) -> float | None:
        """The part of RSS that lies on huge pages, 0..1."""
        return None if not self.rss or self.huge is None else self.huge / self.rss


def look(target: str) -> Look:
    """One look at a process by its PID or the address of its HTTP server. Raises LiveError."""
    try:
        return _by_pid(int(target)) if target.isdecimal() else _by_address(target)
    except _UNREADABLE as error:
        raise LiveError(
            f"{target}: its answer cannot be read ({type(error).__name__}: {error}); "
            "is it a process under llamalloc?"
        ) from None


def rates(before: Look, after: Look) -> dict[str, float]:
    """Changes per second of some statistics."""
    seconds = max(after.seconds - before.seconds, 1e-9)
    return {
        name: (after.stats.get(name, 0) - before.stats.get(name, 0)) / seconds
        for name in RATES
        if name in after.stats
    }


def growth(before: Look, after: Look) -> list[tuple[str, int, int]]:
    """(call site, bytes in use, change) by the size of the change, then by bytes."""
    names = after.sites.keys() | before.sites.keys()
    rows = [
        (n, after.sites.get(n, 0), after.sites.get(n, 0) - before.sites.get(n, 0)) for n in names
    ]
    return sorted(rows, key=lambda row: (-abs(row[2]), -row[1], row[0]))


def _by_pid(pid: int) -> Look:
    try:
        at = published.read(pid)
    except published.PublishedError as error:
        raise LiveError(str(error)) from None
    address = at.text("http")
    return Look(
        pid, published.command_of(pid), time.monotonic(), published.figures(at),
        published.groups(at), at.gate, bool(at.number("placement_on")), address,
        **_of_system(pid), sites=_sites(address) if address and _shares_network(pid) else {},
    )  # fmt: skip


def _shares_network(pid: int) -> bool:
    """Whether an address of the process means the same here; in a container it may not."""
    try:
        return (PROC / str(pid) / "ns/net").samefile(PROC / "self/ns/net")
    except OSError:
        return False


def _by_address(address: str) -> Look:
    address = address.removeprefix("http://").rstrip("/")
    document = json.loads(_get(address, "/stats.json"))
    pid = document["pid"]
    return Look(
        pid, document["command"], time.monotonic(), document["stats"],
        [{**g, "slots": g["allocated"]} for g in document["groups"]],
        document["segregation"], False, address,
        **{"charge": document.get("charge")} | _of_system(pid, document["command"]),
        sites=_sites(address),
    )  # fmt: skip


def address_of(at: published.Published) -> str:
    """Where a process serves HTTP, if that address means the same here; or ""."""
    address = at.text("http")
    return address if address and _shares_network(at.pid) else ""


def download(address: str, path: str) -> bytes:
    """A page of a process that serves HTTP. Raises LiveError."""
    return _get(address.removeprefix("http://").rstrip("/"), path)


def _of_system(pid: int, command: str | None = None) -> dict[str, int | None]:
    """What the kernel says, if the process is one of this machine's."""
    if command is not None and read_text(PROC / str(pid) / "comm") != command[:15]:
        return {}
    try:
        memory = read_memory(pid)
    except OSError:
        return {"charge": _charge(pid)}
    return {"rss": memory.rss, "huge": memory.anon_huge_pages, "charge": _charge(pid)}


def _charge(pid: int) -> int | None:
    """Of its control group; None where none is to be seen."""
    group = charge.of_process(pid, proc=PROC)
    with contextlib.suppress(charge.ChargeError):
        return group.read().charge if group else None
    return None


def _sites(address: str) -> dict[str, int]:
    """Bytes in use by call site: the innermost frame that is no library function for memory."""
    from google.protobuf.message import DecodeError

    from llamalloc.formats.pprof_proto import ProfileMessage

    try:
        data = gzip.decompress(_get(address, "/debug/pprof/heap"))
    except LiveError:
        return {}  # somebody else's profile is being made
    profile = ProfileMessage()
    try:
        profile.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(f"no profile: {error}") from None
    texts = [bytes(text).decode("utf-8", "replace") for text in profile.string_table]
    names = {f.id: texts[f.name] for f in profile.function}
    functions = {place.id: names[place.line[0].function_id] for place in profile.location}
    sites: dict[str, int] = {}
    for sample in profile.sample:
        stack = [functions[i] for i in sample.location_id]
        site = next((name for name in stack if not _is_library(name)), stack[0] if stack else "?")
        sites[site] = sites.get(site, 0) + sample.value[3]
    return sites


def _is_library(name: str) -> bool:
    return name.startswith(("_ZNSt", "_ZSt", "_ZN9__gnu_cxx", "_ZNKSt", "__gnu", "?", "_Zn"))


# ----- HTTP -----


class _LocalConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _connection(address: str, timeout: float) -> http.client.HTTPConnection:
    if address.startswith("unix:"):
        return _LocalConnection(address.removeprefix("unix:"), timeout)
    return http.client.HTTPConnection(address, timeout=timeout)


def _get(address: str, path: str, timeout: float = 30.0) -> bytes:
    try:
        with contextlib.closing(_connection(address, timeout)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
    except (OSError, OverflowError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or error
        raise LiveError(f"{address}: {reason}; expected a PID or an address of http:") from None
    if response.status != 200:
        kind = BusyError if response.status == http.client.SERVICE_UNAVAILABLE else LiveError
        raise kind(f"{address}{path}: {body.decode('utf-8', 'replace').strip()}")
    return body

# SPDX-License-Identifier: Apache-2.0
"""Samples a program that already runs under the library.

    PID -> published block -> control socket: its interval is ours, and it writes the profile
                           -> HTTP: as often as it samples anyway, and it sends the profile

The process samples as before when this ends, also after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from llamalloc.formats import regular_file
from llamalloc.running import live, published
from llamalloc.running.control import ControlError, ask
from llamalloc.running.ending import held
from llamalloc.running.procmem import PROC, lives

LONGEST_BY_HTTP = 3600  # seconds, of one request
_TICK = 0.25
_ENDS = 0.5  # seconds, from its last answer until it has ended


class AttachError(RuntimeError):
    """The process cannot be sampled, or has not been; the message says why and what to do."""


class UnreachableError(AttachError):
    """The process runs without the library, or without an address where it could be asked."""


@dataclass(frozen=True)
class Target:
    """A process that can be asked. `control` as this process sees it; `inside` as it does."""

    pid: int  # 0: not known
    control: Path | None = None
    inside: Path | None = None
    http: str = ""

    @property
    def name(self) -> str:
        return f"{self.pid} ({published.command_of(self.pid).split(' ')[0]})"


def find(pid: int) -> Target:
    """How the process `pid` can be asked. Raises AttachError."""
    try:
        at = published.read(pid)
    except published.NotUnderUsError:
        raise UnreachableError(
            f"{Target(pid).name}: does not run under llamalloc, and cannot be moved to it while it "
            "runs; restart it by: llamalloc record -o P.pb.gz --for 5m -- PROGRAM"
        ) from None
    except published.PublishedError as error:
        raise AttachError(str(error)) from None
    if control := at.text("control"):
        return _by_control(pid, Path(control))
    if (http := at.text("http")) and (http.startswith("unix:") or live.shares_network(pid)):
        return Target(pid, http=_seen_from_here(pid, http))
    raise UnreachableError(
        f"{Target(pid).name}: runs under llamalloc, but has no address where it could be asked to "
        "sample; restart it with the option control:/run/NAME.%p.ctl"
    )


def _by_control(pid: int, control: Path) -> Target:
    if not control.is_absolute():
        control = (PROC / str(pid) / "cwd").readlink() / control
    return Target(pid, _root_of(pid) / control.relative_to("/"), control)


def _seen_from_here(pid: int, http: str) -> str:
    if not http.startswith("unix:/"):
        return http
    return f"unix:{_root_of(pid) / http.removeprefix('unix:/')}"


def _root_of(pid: int) -> Path:
    """The root folder of the process: another one in a container."""
    root = PROC / str(pid) / "root"
    try:
        same = (PROC / str(pid) / "ns/mnt").samefile(PROC / "self/ns/mnt") and root.samefile("/")
    except OSError:
        same = True
    return Path("/") if same else root


def sample(target: Target, profile: Path, seconds: float, interval: int) -> None:
    """Samples for `seconds`, over HTTP at the interval of the process; writes what was allocated
    and freed in this time to `profile`. Raises AttachError or ControlError."""
    if target.control is not None:
        _by_socket(target, profile, seconds, interval)
    elif seconds > LONGEST_BY_HTTP:
        raise AttachError(
            f"{target.name}: over HTTP at most {LONGEST_BY_HTTP} s; with control:PATH any time"
        )
    else:
        _by_http(target, profile, seconds)


# ----- The control socket -----


def _by_socket(target: Target, profile: Path, seconds: float, interval: int) -> None:
    control = target.control
    assert control is not None
    with _alone(target), _sampling(control, interval) as opened:
        _wait(target, seconds)
        if not _is_ours(control, opened):
            raise AttachError(
                f"{control}: somebody opened a window meanwhile, and a process has one; nothing "
                "was recorded"
            )
        _fetch(target, profile)


@contextlib.contextmanager
def _alone(target: Target) -> Iterator[None]:
    """Two at once would take each other's window. The mark goes with this process, however it
    ends. Raises AttachError."""
    control = target.control
    assert control is not None
    if not control.exists():
        yield  # which asks, and says so
        return
    at = control.stat()
    with socket.socket(socket.AF_UNIX) as mark:
        try:
            mark.bind(f"\0llamalloc-record.{at.st_dev}.{at.st_ino}")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise AttachError(f"{control}: is being recorded; try again afterwards") from None
        yield


@contextlib.contextmanager
def _sampling(control: Path, interval: int) -> Iterator[float]:
    """Sampling at `interval` and a window, open since the moment that it yields; afterwards both
    are as they were. Raises AttachError if somebody else has the window."""
    before = {name: ask(control, f"get {name}").strip() for name in ("sample_interval", "sampling")}
    if _window_age(control):
        raise AttachError(
            f"{control}: somebody records by hand, and a process has one window; try again after "
            "its command `window PATH`, or `window close`"
        )
    asked, opened = False, 0.0
    try:
        ask(control, f"set sample_interval {interval}")
        ask(control, "sampling on")
        asked = True
        ask(control, "window open")
        opened = time.monotonic()
        yield opened
    finally:
        with held(), contextlib.suppress(ControlError):  # it has ended
            ask(control, f"set sample_interval {before['sample_interval']}")
            ask(control, f"sampling {before['sampling']}")
            if asked and (not opened or _is_ours(control, opened)):
                ask(control, "window close")


def _window_age(control: Path) -> float:
    """Seconds since the window was opened; 0: none is open."""
    return int(ask(control, "get window")) / 1e9


def _is_ours(control: Path, opened: float) -> bool:
    """Whether no window was opened after `opened`."""
    passed = time.monotonic() - opened
    return not 0 < _window_age(control) < passed


def _fetch(target: Target, profile: Path) -> None:
    """The process writes its profile where both may: to the file itself, or beside its socket."""
    assert target.control is not None and target.inside is not None
    name = f".llamalloc-record.{os.getpid()}.pb.gz"
    places = [(profile, profile)] if target.control == target.inside else []
    places.append((target.control.parent / name, target.inside.parent / name))
    why = ""
    for here, inside in places:
        try:
            ask(target.control, f"window {inside}", timeout=120)
        except ControlError as error:
            _must_live(target, error)
            why = str(error)
            continue
        if here != profile:
            _take(here, profile)
        return
    tried = " nor to ".join(str(inside) for _, inside in places)
    raise AttachError(
        f"{target.name}: wrote no profile ({why}); if it cannot write to {tried}, choose a file "
        "where its user may"
    )


def _take(file: Path, profile: Path) -> None:
    """Moves what the process wrote; it must be a file, not a link to one of ours."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe may lie there
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise AttachError(f"{file}: not a regular file")
        regular_file.write(profile, stream.read())
    file.unlink(missing_ok=True)


# ----- HTTP -----


def _by_http(target: Target, profile: Path, seconds: float) -> None:
    answers: list[bytes | Exception] = []

    def fetch() -> None:
        path = f"/debug/pprof/lifetimes?seconds={max(round(seconds), 1)}"
        try:
            answers.append(live.get(target.http, path, timeout=seconds + 120))
        except live.LiveError as error:
            answers.append(error)

    request = threading.Thread(target=fetch, daemon=True)
    request.start()
    _wait(target, seconds, until=lambda: bool(answers))
    request.join()
    if isinstance(answers[0], Exception):
        _must_live(target, answers[0])
        raise AttachError(str(answers[0]))
    regular_file.write(profile, answers[0])


# ----- Time -----


def _wait(target: Target, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    """Waits with a bar on stderr. Raises AttachError if the process ends meanwhile."""
    with held():  # an import can lose a signal's exception, in a callback
        from rich.console import Console
        from rich.progress import Progress

    start, console = time.monotonic(), Console(stderr=True)
    silent = seconds < 2 or not console.is_terminal
    with Progress(console=console, transient=True, disable=silent) as bar:
        task = bar.add_task(f"sampling for {seconds:g} s", total=seconds)
        while (passed := time.monotonic() - start) < seconds and not until():
            _must_live(target, None, passed)
            bar.update(task, completed=passed)
            time.sleep(min(_TICK, seconds - passed))


def _must_live(target: Target, cause: Exception | None, passed: float | None = None) -> None:
    if target.pid == 0 or not _ended(target.pid, _ENDS if cause else 0.0):
        return
    after = "" if passed is None else f" after {passed:.0f} s of sampling"
    raise AttachError(f"{target.pid}: ended{after}; nothing was recorded") from cause


def _ended(pid: int, patience: float) -> bool:
    """Within `patience` seconds: the connections of a killed process close before it has ended."""
    deadline = time.monotonic() + patience
    while lives(pid):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True

# SPDX-License-Identifier: Apache-2.0
"""An orderly end by a signal: what was started ends, what was changed is restored."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C. After a plain KeyboardInterrupt in the text of an exec() (each dataclass has one),
    `python -m` ends by SIGINT whatever exit code follows."""


@contextlib.contextmanager
def tidy_end() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit meanwhile, SIGINT raises Interrupted. One that is
    ignored (nohup) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in _ENDING if signal.getsignal(n) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, _leave)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """A signal that ends us comes after the block, so that what it starts is known to its starter:

    process = None
    try:
        with held():
            process = Popen(...)
        ...
    finally:
        if process: ...
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {n: signal.getsignal(n) for n in (*_ENDING, signal.SIGINT)}
    # No other handler is Python's: such a signal is ignored, or ends us without it.
    ours = {n: handler for n, handler in before.items() if callable(handler)}
    for number in ours:
        signal.signal(number, lambda n, _: came.append(n))
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def kill(process: subprocess.Popen[bytes], group: bool = False) -> None:
    """Ends it (`group`: and its process group), and waits for its end. After a signal that ends
    us, Popen.kill() and wait() may stay for ever: it came in poll(), which kept Popen's lock."""
    with contextlib.suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, signal.SIGKILL)
        elif process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # else its end is known
        _, status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _interrupt(_number: int, _frame: object) -> None:
    raise Interrupted

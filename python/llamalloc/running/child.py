# SPDX-License-Identifier: Apache-2.0
"""Starts a program, stands between it and its signals, and waits for it.

    terminal --SIGINT--> both (same process group): not passed on, the program has it already
    kill PID --SIGTERM-> us ----------------------> passed on

The environment may need the child's own pid, which is known only between fork and exec.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_PASSED_ON = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGTTIN,  # gunicorn: one worker more
    signal.SIGTTOU,
    signal.SIGWINCH,  # nginx, Apache: end gracefully
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
}
_HANDLED = _PASSED_ON | {signal.SIGCHLD}
_OF_BACKGROUND = {signal.SIGTTIN, signal.SIGTTOU}
_FROM_KERNEL = 0x80  # SI_KERNEL: the terminal sent it to the whole group


def run(
    program: Path,
    command: list[str],
    environment: Callable[[int], Mapping[str, str]],
    every: float | None = None,
    tick: Callable[[], None] = lambda: None,
    started: Callable[[int], None] = lambda pid: None,
) -> int:
    """Runs `program` to its end; returns its wait status (os.waitstatus_to_exitcode reads it).

    environment(pid) is the child's; tick() is called about every `every` seconds; started(pid) once
    the program runs. Raises OSError where the program cannot be executed.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        pid = _spawn(program, command, environment, before)
        started(pid)
        return _attend(pid, every, tick)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def signals_as_given() -> Iterator[None]:
    """Inside, what Python ignores is not ignored: a program that is executed inherits it."""
    before = {one: signal.signal(one, signal.SIG_DFL) for one in (signal.SIGPIPE, signal.SIGXFSZ)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _spawn(
    program: Path,
    command: list[str],
    environment: Callable[[int], Mapping[str, str]],
    mask: set[int],
) -> int:
    fault_out, fault_in = os.pipe()  # closed by a successful exec
    pid = os.fork()
    if pid == 0:
        _become(program, command, environment, mask, fault_in)
    os.close(fault_in)
    with os.fdopen(fault_out, "rb") as stream:
        fault = stream.read()
    if fault:
        os.waitpid(pid, 0)
        raise OSError(int(fault), os.strerror(int(fault)), str(program))
    return pid


def _become(
    program: Path,
    command: list[str],
    environment: Callable[[int], Mapping[str, str]],
    mask: set[int],
    fault_in: int,
) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with signals_as_given():
            os.execve(program, command, environment(os.getpid()))
    except OSError as error:
        os.write(fault_in, str(error.errno).encode())
    finally:
        os._exit(127)


def _attend(pid: int, every: float | None, tick: Callable[[], None]) -> int:
    due = time.monotonic() + (every or 0)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if every is None:
            info = signal.sigwaitinfo(_HANDLED)
        else:
            info = signal.sigtimedwait(_HANDLED, max(due - time.monotonic(), 0))
        if info is None:
            tick()
            due += every or 0
        elif info.si_signo in _PASSED_ON and info.si_code != _FROM_KERNEL:
            os.kill(pid, info.si_signo)
        elif info.si_signo in _OF_BACKGROUND:
            os.kill(os.getpid(), signal.SIGSTOP)  # as the program: the shell continues both

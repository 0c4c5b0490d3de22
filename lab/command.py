# SPDX-License-Identifier: Apache-2.0
"""The end of a measuring command: its exit status, and one line where it could not run."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)


def exit_status(name: str, run: Callable[[], int], faults: tuple[type[Exception], ...]) -> int:
    """What `run` returns; 130 after Ctrl-C, 2 after one of `faults`, each with a line on stderr."""
    try:
        with tidy_end():
            return run()
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; nothing was written", file=sys.stderr)
        return 130
    except faults as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2


@contextlib.contextmanager
def tidy_end() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit meanwhile, so that what was started or made goes, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _leave) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)

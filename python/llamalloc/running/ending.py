# SPDX-License-Identifier: Apache-2.0
"""An orderly end by SIGTERM or SIGHUP: what was started ends, what was changed is restored."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def tidy_end() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit meanwhile. One that is ignored (nohup) stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in _ENDING if signal.getsignal(n) != signal.SIG_IGN}
    for number in before:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)

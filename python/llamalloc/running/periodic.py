# SPDX-License-Identifier: Apache-2.0
"""What looks at a program again and again while it runs: a thread from `with` to its end."""

from __future__ import annotations

import threading
from typing import Self


class Periodic:
    """Calls `_look` every `period` seconds, until it says that there is nothing more to see."""

    def __init__(self, period: float) -> None:
        self._period = period
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """What was seen stays as it is now."""
        self._over.set()
        self._thread.join()

    def is_over(self) -> bool:
        """Whether it was told to stop."""
        return self._over.is_set()

    def _look(self) -> bool:
        """False: the program has gone."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self._over.wait(self._period):
            if not self._look():
                return

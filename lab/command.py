# SPDX-License-Identifier: Apache-2.0
"""The end of a measuring command: its exit status, and one line where it could not run."""

from __future__ import annotations

import sys
from collections.abc import Callable

from llamalloc.running.ending import tidy_end


def exit_status(name: str, run: Callable[[], int], faults: tuple[type[Exception], ...]) -> int:
    """What `run` returns; 130 after Ctrl-C, 2 after one of `faults` or a fault of the system, each
    with a line on stderr."""
    try:
        with tidy_end():
            return run()
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted; nothing was written", file=sys.stderr)
        return 130
    except (*faults, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2

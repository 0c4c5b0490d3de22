# SPDX-License-Identifier: Apache-2.0
"""Samples a program that already runs under the library, through its control socket."""

from __future__ import annotations

import time
from pathlib import Path

from llamalloc.running.control import ControlError, ask

__all__ = ["ControlError", "sample"]


def sample(control: Path, profile: Path, seconds: float, interval: int) -> None:
    """Sampling on for `seconds` at a mean of `interval` bytes, then the profile written to
    `profile` by that process. Sampling is off afterwards, also after Ctrl-C. Raises ControlError.
    """
    from rich.console import Console
    from rich.progress import track

    before = {name: ask(control, f"get {name}").strip() for name in ("sample_interval", "sampling")}
    ask(control, f"set sample_interval {interval}")
    ask(control, "sampling on")
    ask(control, "window open")
    try:
        ticks = max(round(seconds * 2), 1)
        for _ in track(range(ticks), f"sampling for {seconds:g} s", console=Console(stderr=True)):
            time.sleep(seconds / ticks)
        ask(control, f"window {profile}", timeout=120)
    finally:
        for command in (
            f"set sample_interval {before['sample_interval']}",
            f"sampling {before['sampling']}",
        ):
            ask(control, command)

# SPDX-License-Identifier: Apache-2.0
"""A command of the user's that a shell runs. It ends with us, and so does what it started."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from typing import IO

from llamalloc.running import ending


@contextlib.contextmanager
def running(
    command: str, environment: Mapping[str, str], output: IO[str] | int
) -> Iterator[subprocess.Popen[bytes]]:
    """Inside the block it runs, in a session of its own. `output` takes stderr too. What is left of
    it is killed if the block fails; else its end is waited for."""
    process = None
    try:
        with ending.held():
            process = subprocess.Popen(
                command, shell=True, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        yield process
        process.wait()
    except BaseException:
        if process is not None:
            ending.kill(process, group=True)
        raise

# SPDX-License-Identifier: Apache-2.0
"""Builds what a suite needs from a source tree, once."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .suite import SuiteError

Step = Sequence[str | Path]


def once(folder: Path, name: str, steps: Sequence[Step]) -> None:
    """Runs `steps` in `folder`, unless they all succeeded before; what they say is in NAME.log."""
    done, log = folder / f"{name}.done", folder / f"{name}.log"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    with log.open("w") as file:
        for step in steps:
            words = [str(word) for word in step]
            run = subprocess.run(
                words,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if run.returncode != 0:
                last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])[-600:]
                raise SuiteError(f"{' '.join(words[:3])} failed; all it said is in {log}:\n{last}")
    done.touch()


def make(*words: str | Path) -> Step:
    """`make` on every processor."""
    return ["make", f"-j{os.cpu_count()}", *words]

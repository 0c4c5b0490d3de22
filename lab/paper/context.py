# SPDX-License-Identifier: Apache-2.0
"""What exhibits share: the folder of intermediate files, and inputs made once on first use.

context.trace("redis")      every event of one run     OUT/redis.trace
context.profile("redis")    samples of one run         OUT/redis-1-64KiB.pb.gz
context.model("redis")      trained on a profile       OUT/redis.model
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import allocators, peers
from lab.allocators import Allocator
from lab.launcher import LLAMALLOC
from lab.places import LIBRARY
from lab.workloads import programs, runner

INTERVAL = "64KiB"  # a sample each so many bytes, on average: enough for runs of a minute


# Times the scale: the smallest load of word count ends before anything could go back.
SCALES = {"wordcount": 4.0}
OTHERS = ("tcmalloc", "jemalloc")


class PaperError(RuntimeError):
    """An exhibit cannot be made; one message with cause and cure."""


@dataclass(frozen=True)
class Context:
    """`scale` multiplies every load; `rounds` is the number of measured runs of each row."""

    out: Path
    say: Callable[[str], None]
    scale: float = 1.0
    rounds: int = 1
    seconds: float = 0.3  # of a sample of a microbenchmark
    mesh: Path | None = None  # the library of Mesh, where there is one

    def file(self, program: str, tail: str) -> Path:
        """Where something of the program's load at this scale is."""
        scale = self._scale(program)
        return self.out / (program + ("" if scale == 1 else f"-x{scale:g}") + tail)

    def run(self, program: str, seed: int = 1, **how: object) -> runner.Outcome:
        """One run of a workload; `how` as runner.Options. Raises WorkloadError."""
        options = runner.Options(scale=self._scale(program), seed=seed, **how)
        return runner.run(programs.find(program), options, lambda text: None)

    def trace(self, program: str) -> Path:
        """The file; recorded first if it is not there."""
        return self._made(
            self.file(program, ".trace"),
            lambda path: self.run(program, under=f"llamalloc trace -o {path}"),
        )

    def profile(self, program: str, seed: int = 1, interval: str = INTERVAL) -> Path:
        """The file; recorded first if it is not there."""
        return self._made(
            self.file(program, f"-{seed}-{interval}.pb.gz"),
            lambda path: self.run(
                program, seed, under=f"llamalloc record --interval {interval} -o {path}"
            ),
        )

    def model(self, program: str) -> Path:
        """Trained on one run of the program; a second run is held out."""
        return self._made(
            self.file(program, ".model"),
            lambda path: self.train(path, self.profile(program), self.profile(program, 2)),
        )

    def train(self, model: Path, learned: Path, held_out: Path) -> str:
        """The accuracy report as JSON, which is kept beside the model. Raises PaperError."""
        command = [*LLAMALLOC, "train", "-o", model, learned, "--holdout", held_out, "--json"]
        done = subprocess.run(map(str, command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise PaperError(f"llamalloc train failed: {done.stderr.strip()}")
        model.with_suffix(".json").write_text(done.stdout)
        return done.stdout

    def _scale(self, program: str) -> float:
        return self.scale * SCALES.get(program, 1.0)

    def present(self, names: Sequence[str]) -> tuple[dict[str, Allocator], list[str]]:
        """(Those of these allocators that are there, by these names; a line for each other)."""
        built = {allocators.BUILT[name] for name in names if name in allocators.BUILT}
        failed = peers.ensure(built, self.say)
        found, missing = {}, []
        for name in names:
            there, lines = allocators.present([name], LIBRARY, failed)
            found |= dict(zip([name], there, strict=False))
            missing += [line.replace(" is left out", "") for line in lines]
        return found, missing

    def _made(self, path: Path, make: Callable[[Path], object]) -> Path:
        """In a folder of its own until it is whole: what was interrupted is made again."""
        if path.exists():
            return path
        self.say(f"making {path.name}")
        with tempfile.TemporaryDirectory(prefix="partial-", dir=self.out) as folder:
            make(Path(folder) / path.name)
            if not (Path(folder) / path.name).exists():
                raise PaperError(f"{path} was not written")
            for part in sorted(Path(folder).iterdir(), key=lambda part: part.name == path.name):
                shutil.move(part, self.out / part.name)
        return path

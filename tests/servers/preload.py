# SPDX-License-Identifier: Apache-2.0
"""Runs programs under the library and finds what went wrong.

LLAMALLOC_TEST_LIBRARY names another allocator to preload, to try the tests themselves.
Invariant: a program that fails, times out, is not preloaded or makes the library or the loader
write a line to stderr fails its test.
"""

import fcntl
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from llamalloc.running import server
from llamalloc.running.server import free_port as free_port

ROOT = Path(__file__).resolve().parents[2]
COMPLAINT = re.compile(r"^(llamalloc: .*|ERROR: ld\.so: .*)$", re.MULTILINE)


def library() -> Path:
    """The library under test; an error that says how to build it if it is not there."""
    path = Path(os.environ.get("LLAMALLOC_TEST_LIBRARY", ROOT / "build/release/libllamalloc.so"))
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not built; run: make build")
    return path


def environment(conf: str = "", **extra: str) -> dict[str, str]:
    """This process's environment with the library preloaded and LLAMALLOC_CONF set to `conf`."""
    kept = {k: v for k, v in os.environ.items() if k not in {"LD_PRELOAD", "LLAMALLOC_CONF"}}
    settings = {"LLAMALLOC_CONF": conf} if conf else {}
    return {**kept, "LD_PRELOAD": str(library()), **settings, **extra}


def run(
    command: Sequence[str | Path],
    *,
    seconds: float,
    conf: str = "",
    cwd: Path | None = None,
    text_in: str | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `command` under the library; asserts exit 0 within `seconds` and no complaint."""
    done = subprocess.run(
        [str(word) for word in command],
        env=environment(conf, **(env or {})),
        cwd=cwd,
        input=text_in if text_in is not None else "",
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    assert_quiet(done.stderr)
    return done


def assert_quiet(stderr: str) -> None:
    """No line of the library's or the loader's in `stderr`."""
    assert not COMPLAINT.findall(stderr), COMPLAINT.findall(stderr)


@contextmanager
def building() -> Iterator[None]:
    """Only one of the processes that run the tests builds at a time."""
    with (ROOT / "build" / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_targets(*targets: str) -> None:
    """Targets of the release build, built if they are older than their sources."""
    command = ["cmake", "--build", str(ROOT / "build/release"), "--target", *targets]
    with building():
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{targets} do not build: {done.stdout[-2000:]}"


def compile_program(name: str, folder: Path | None = None, *options: str) -> Path:
    """build/tests/NAME from tests/servers/NAME.cc, compiled again only when older."""
    folder = folder or ROOT / "build" / "tests"
    folder.mkdir(parents=True, exist_ok=True)
    here, program = Path(__file__).parent, folder / name
    sources = [here / f"{name}.cc", *here.glob("*.h")]
    flags = ["-std=c++20", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command = ["g++", *flags, *options, sources[0], "-o", program]
    with building():
        newest = max(source.stat().st_mtime for source in sources)
        if not program.exists() or program.stat().st_mtime < newest:
            subprocess.run(command, check=True, timeout=120)
    return program


class Server(server.Server):
    """A server process under the library: `with Server(command, port, folder) as server:`.

    Leaving the block asks it to end by SIGTERM and asserts exit 0 and a quiet stderr.
    `preloaded` False: as the system ships it, for reference.
    """

    def __init__(
        self, command: Sequence[str | Path], port: int, folder: Path, *, preloaded: bool = True
    ):
        self.port, self.preloaded, self.stderr = port, preloaded, folder / "stderr.txt"
        env = environment() if preloaded else None
        super().__init__(command, env, folder / "stdout.txt", self.stderr)

    def __enter__(self) -> "Server":
        try:
            self.wait_until(lambda: server.listens(self.port), 20)
            if self.preloaded:
                self.assert_preloaded()
        except BaseException:
            self.kill()
            raise
        return self

    def assert_preloaded(self) -> None:
        maps = Path(f"/proc/{self.process.pid}/maps").read_text(encoding="utf-8")
        assert library().resolve().name in maps

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.terminate()
        if (status := self.wait(30)) is None:
            self.kill()
            raise TimeoutError(f"{self.words[0]} did not end within 30 s of SIGTERM")
        if kind is None:
            assert status == 0, f"exit {status}: {self.output()[-2000:]}"
            assert_quiet(self.stderr.read_text())

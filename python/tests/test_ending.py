# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at an awkward moment: the exit code is 130, and what was changed is restored."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llamalloc.running import attach, server, shell

# A dataclass that is made then runs such a text, which no other handler of ours sees.
INTERRUPTED = "exec('import signal; signal.raise_signal(signal.SIGINT)')"
COMMANDS = {
    "llamalloc": f"""
from llamalloc import cli
cli.app = lambda *_, **__: {INTERRUPTED}
cli.main()
""",
    "lab": f"""
import sys
from lab import command
sys.exit(command.exit_status("lab", lambda: {INTERRUPTED}, ()))
""",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_interrupt_within_an_exec_ends_with_130(name: str, tmp_path: Path):
    (tmp_path / "command.py").write_text(
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.path[1:1] = {sys.path!r}\n{COMMANDS[name]}"
    )
    done = subprocess.run(
        [sys.executable, "-m", "command"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr


class Process:
    """What a control socket answers; Ctrl-C comes with the first question for which `when`."""

    def __init__(self, when: str):
        self.when, self.asked = when, []

    def ask(self, _control: Path, line: str) -> str:
        self.asked.append(line)
        if line == self.when:
            self.when = ""
            signal.raise_signal(signal.SIGINT)
        return {"get sample_interval": "7\n", "get sampling": "off\n"}.get(line, "0\n")


@pytest.fixture
def interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize(
    "when", ["set sample_interval 5", "window open", "set sample_interval 7", "sampling off"]
)
def test_an_interrupt_leaves_the_process_as_it_was(when: str, monkeypatch: pytest.MonkeyPatch):
    """Also one that comes while it is being restored."""
    process = Process(when)
    monkeypatch.setattr(attach, "ask", process.ask)
    with pytest.raises(KeyboardInterrupt), attach._sampling(Path("c"), 5):
        pass
    left = process.asked[process.asked.index("set sample_interval 7") :]
    assert left[:2] == ["set sample_interval 7", "sampling off"]
    assert ("window close" in left) == ("window open" in process.asked)


@pytest.fixture
def soon() -> Iterator[None]:
    """What hangs fails."""

    def fail(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", ["shell", "server"])
def test_a_signal_within_poll_leaves_no_process_and_does_not_hang(kind: str, tmp_path: Path):
    """poll() has just taken Popen's lock; the exception leaves it taken."""
    with pytest.raises(SystemExit):
        if kind == "shell":
            with shell.running("sleep 60; true", os.environ, subprocess.DEVNULL) as process:
                process._waitpid_lock.acquire()
                raise SystemExit
        else:
            started = server.Server(["sleep", "60"], None, tmp_path / "output")
            process = started.process
            try:
                process._waitpid_lock.acquire()
                raise SystemExit
            finally:
                started.kill()
    assert process.returncode == -signal.SIGKILL
    assert not Path("/proc", str(process.pid)).exists()

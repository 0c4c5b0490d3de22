# SPDX-License-Identifier: Apache-2.0
"""The parent of a recorded program: its pid in the environment, signals, exit codes."""

import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from llamalloc.running import child

SHELL = Path("/bin/sh")


def status_of(script: str) -> int:
    def environment(pid: int) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "OWNER": str(pid)}

    return os.waitstatus_to_exitcode(child.run(SHELL, ["sh", "-c", script], environment))


def test_exit_codes_and_deaths_come_through() -> None:
    assert status_of("exit 0") == 0
    assert status_of("exit 7") == 7
    assert status_of("kill -SEGV $$") == -signal.SIGSEGV


@pytest.fixture
def nothing_ignored() -> Iterator[None]:
    """What nohup and the like ignore or block, a child rightly inherits: not here."""
    own = {signal.SIGPIPE, signal.SIGXFSZ}  # ignored by Python itself, put right by child.run
    others = signal.valid_signals() - own
    ignored = [s for s in others if signal.getsignal(s) == signal.SIG_IGN]
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, set())
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.mark.usefixtures("nothing_ignored")
def test_the_child_knows_its_own_pid_and_has_no_blocked_or_ignored_signals() -> None:
    assert status_of('[ "$OWNER" = $$ ]') == 0
    # Signals 1 to 31; 32 and 33 are the C library's own, and nobody's to reset.
    mask = r"grep -E '^Sig(Blk|Ign):\s*[0-9a-f]{8}[08]0{7}$' /proc/self/status | wc -l | grep -q 2"
    assert status_of(mask) == 0


def test_a_program_that_cannot_be_executed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "p").chmod(0o755)
    with pytest.raises(OSError, match="Exec format"):
        child.run(tmp_path / "p", ["p"], lambda pid: {})


PARENT = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from llamalloc.running import child
    s = "trap 'echo got; exit 9' %s; echo ready; while :; do sleep 0.02; done"
    code = child.run(Path("/bin/sh"), ["sh", "-c", s % sys.argv[1]], lambda pid: dict(os.environ))
    sys.exit(os.waitstatus_to_exitcode(code))
""")


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "USR1", "USR2"])
def test_signals_are_passed_on(name: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, name], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    parent.send_signal(getattr(signal, f"SIG{name}"))
    assert parent.communicate(timeout=10)[0] == "got\n"
    assert parent.returncode == 9


COUNTER = """
import os, signal, time
os.setpgid(0, 0)  # out of the terminal's reach: what arrives was passed on
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
print("ready", flush=True)
until = time.monotonic() + 1
while time.monotonic() < until:
    time.sleep(0.01)
print("got", len(seen), flush=True)
"""
RUNNER = """
import os, sys
from pathlib import Path
from llamalloc.running import child
child.run(Path(sys.executable), ["python", "-c", sys.argv[1]], lambda pid: dict(os.environ))
"""


def test_an_interrupt_of_the_terminal_is_not_passed_on_for_the_child_has_it() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", RUNNER, COUNTER])
    read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    said = read_until(terminal, b"got ")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"got 0" in said


def read_until(terminal: int, words: bytes) -> bytes:
    said = b""
    while words not in said or not said.endswith(b"\n"):
        said += os.read(terminal, 1000)
    return said


def test_the_clock_ticks_while_the_child_runs() -> None:
    ticks: list[float] = []
    start = time.monotonic()
    child.run(
        SHELL,
        ["sh", "-c", "sleep 0.5"],
        lambda pid: dict(os.environ),
        every=0.1,
        tick=lambda: ticks.append(time.monotonic() - start),
    )
    assert 2 <= len(ticks) <= 6


@pytest.mark.parametrize("number", [signal.SIGWINCH, signal.SIGTTIN, signal.SIGALRM, 40])
def test_what_servers_take_as_commands_is_passed_on(number: int, tmp_path: Path) -> None:
    """nginx ends gracefully by WINCH, gunicorn counts its workers by TTIN and TTOU."""
    script = f"trap 'exit 9' {int(number)}; echo > {tmp_path}/ready; while :; do sleep 0.01; done"
    parent = f"""
        import os, sys
        from pathlib import Path
        from llamalloc.running import child
        status = child.run(Path("/bin/bash"), ["bash", "-c", {script!r}], lambda pid: os.environ)
        sys.exit(os.waitstatus_to_exitcode(status))
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(parent)]) as process:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(20) == 9


def test_run_leaves_no_signal_ignored() -> None:
    """Python ignores two; `llamalloc run -- cat FILE | head` would not end by SIGPIPE."""
    before = signal.getsignal(signal.SIGPIPE)
    with child.signals_as_given():
        assert signal.getsignal(signal.SIGPIPE) == signal.SIG_DFL
        assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGPIPE) == before

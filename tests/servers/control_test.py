# SPDX-License-Identifier: Apache-2.0
"""Clients of the control socket that are silent, slow or wrong cost the process nothing."""

import contextlib
import json
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hugepages import without_huge_pages
from preload import compile_program, environment

from llamalloc.formats import contracts, places
from llamalloc.running import control, procmem

HUGE_PAGE = 2 << 20


class Program:
    """tests/servers/control_load.cc with a control socket."""

    def __init__(self, path: Path, conf: str = "") -> None:
        self.path = path
        self.process = subprocess.Popen(
            [compile_program("control_load")],
            env=environment(f"control:{path}{conf}"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"

    def start(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def result(self) -> str:
        return self.process.stdout.readline().strip()

    def do(self, line: str) -> str:
        self.start(line)
        return self.result()

    def end(self, seconds: float = 20) -> str:
        """Waits for exit 0; what it wrote to stderr."""
        _, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, err
        return err

    def close(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        with contextlib.suppress(ValueError):  # end() was there before
            self.process.communicate()

    def thread(self, name: str) -> Path | None:
        """The folder in /proc of the thread of that name."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return next((t for t in tasks if (t / "comm").read_text().strip() == name), None)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    started = Program(tmp_path / "socket")
    yield started
    started.close()


@contextlib.contextmanager
def clients(path: Path, count: int, text: bytes = b"") -> Iterator[list[socket.socket]]:
    """Connections that sent `text` and do nothing further; those that found room."""
    opened = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    connected = []
    for client in opened:
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            client.connect(str(path))
            client.send(text) if text else None
            connected.append(client)
    yield connected
    for client in opened:
        client.close()


def answer(client: socket.socket, seconds: float = 20) -> bytes:
    """Everything up to end of file."""
    client.settimeout(seconds)
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("count", [8, 100])
def test_fork_waits_for_no_silent_client(program: Program, count: int):
    with clients(program.path, count):
        assert float(program.do("fork 3")) < 2


def test_allocation_waits_for_no_client_that_does_not_read(program: Program):
    """In the best of five rounds: the machine may be busy, but not with this."""
    longest = []
    for _ in range(5):
        with clients(program.path, 1, b"stats\n"):
            longest.append(float(program.do("allocate 1.5")))
    assert min(longest) < 0.5, longest


def test_slow_clients_delay_nobody(program: Program):
    """Seven drip a byte now and then; each could take a second of the eighth's."""
    with clients(program.path, 7) as drips:
        started = time.monotonic()
        for _ in range(3):
            for drip in drips:
                drip.send(b"s")
            assert control.ask(program.path, "ping") == f"pid {program.process.pid}\n"
            time.sleep(0.1)
        assert time.monotonic() - started < 3


def test_a_silent_client_is_told_and_let_go(program: Program):
    with clients(program.path, 20) as silent:
        for client in silent:
            assert answer(client) == b"error: no command was sent\n"
    assert control.ask(program.path, "ping")


def test_garbage_is_answered(program: Program):
    rng = random.Random(5)
    for length in (1, 7, 300, 4199, 4200, 9000):
        garbage = rng.randbytes(length).replace(b"\n", b"?")
        with clients(program.path, 1, garbage + b"\n") as (client,):
            assert answer(client).startswith(b"error: ")
    assert control.ask(program.path, "ping")


def test_a_line_may_come_in_pieces(program: Program):
    with clients(program.path, 1) as (client,):
        for piece in (b"p", b"in", b"g\r\n"):
            client.send(piece)
            time.sleep(0.05)
        assert answer(client).startswith(b"ok\npid ")


def test_half_closed_clients_get_their_answer(program: Program):
    with clients(program.path, 1, b"ping") as (client,):
        client.shutdown(socket.SHUT_WR)
        assert answer(client).startswith(b"ok\npid ")


def test_a_whole_document_comes_to_a_slow_reader(program: Program):
    with clients(program.path, 1, b"stats\n") as (client,):
        time.sleep(0.5)
        head, _, payload = answer(client).partition(b"\n")
    assert head == b"ok"
    assert len(payload) > 300_000, "more than a socket holds"
    assert json.loads(payload)["version"] == 1


def test_the_parts_of_a_document_agree(program: Program):
    program.start("allocate 4")
    for _ in range(20):
        document = control.stats(program.path)
        groups, pages = document["groups"], document["pages"]
        totals = document["stats"]
        assert document.get("pages_left_out", 0) == 0
        direct = totals["mapped_directly"]
        assert totals["allocated"] == sum(g["allocated"] for g in groups) + direct
        assert totals["huge_pages_used"] == sum(g["pages"] for g in groups) == len(pages)
        for group in groups:
            own = [page for page in pages if page["group"] == group["group"]]
            assert group["pages"] == len(own)
            assert group["allocated"] == sum(page["allocated"] for page in own)
            whole = group["allocated"] + group["free_slots"] + group["free_blocks"]
            assert whole == len(own) * HUGE_PAGE
    assert float(program.result()) < 2


def test_exit_waits_for_no_client(program: Program):
    with clients(program.path, 4), clients(program.path, 4, b"stats\n"):
        time.sleep(0.2)
        assert program.end() == ""
    assert not program.path.exists()


def test_a_program_may_close_our_descriptors(program: Program):
    with clients(program.path, 3), clients(program.path, 3, b"stats\n"):
        time.sleep(0.2)
        assert program.do("close") == "500"
    with pytest.raises(control.ControlError):
        control.ask(program.path, "ping")
    assert program.do("close") == "500"
    assert program.end() == ""


def test_a_child_has_neither_socket_nor_thread(program: Program):
    with clients(program.path, 4), clients(program.path, 4, b"stats\n"):
        time.sleep(0.2)
        assert program.do("child") == "0 1"
    assert control.ask(program.path, "ping")


def test_another_services_socket_of_another_kind_stays(tmp_path: Path):
    """Nobody can connect to it as to ours: that does not mean that nobody listens."""
    path = tmp_path / "log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.bind(str(path))
        program = Program(path)
        err = program.end()
        assert "another process already listens there" in err
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.sendto(b"hello", str(path))
        assert service.recv(16) == b"hello"


def test_the_socket_of_a_dead_process_is_replaced(tmp_path: Path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    program = Program(path)
    assert control.ask(path, "ping")
    assert program.end() == ""


def test_clients_may_come_while_descriptors_are_short(tmp_path: Path):
    """The limit leaves none for a client: it waits, and nothing spins."""
    program = Program(tmp_path / "socket")
    pid = program.process.pid
    used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={used - 1}:1024"], check=True)
    with clients(program.path, 2, b"ping\n") as waiting:
        before = procmem.cpu_seconds(pid)
        time.sleep(1)
        assert procmem.cpu_seconds(pid) - before < 0.5
        subprocess.run(["prlimit", "--pid", str(pid), "--nofile=1024:1024"], check=True)
        assert answer(waiting[0]).startswith(b"ok\npid ")
    program.end()


def switches(thread: Path) -> int:
    status = (thread / "status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)


def test_nobody_wakes_while_nobody_asks(program: Program):
    assert control.ask(program.path, "ping")
    time.sleep(0.2)
    thread = program.thread("llamalloc-ctl")
    assert thread is not None
    before = switches(thread)
    time.sleep(2)
    assert switches(thread) == before


def test_clients_are_served_without_a_worker(tmp_path: Path):
    program = Program(tmp_path / "socket", ",worker:off")
    assert program.thread("llamalloc") is None
    assert control.ask(program.path, "ping")
    program.end()


def test_release_says_what_went_back(program: Program):
    """300 MB of runs went to the pool, and some to no pool but a mapping of its own."""
    program.do("allocate 0.2")
    parts = control.release(program.path)
    assert set(parts) == {"total", "empty_pages", "mappings", "broken_pages"}
    assert parts["total"] == sum(parts[name] for name in parts if name != "total")
    assert parts["total"] > 0


def test_one_release_gives_back_all_that_can_go(tmp_path: Path):
    """Sixty sparse pages, and a mapping, unless the worker was faster with that."""
    with without_huge_pages():
        program = Program(tmp_path / "socket", ",release_delay:1h")
    for _ in range(20):
        assert int(program.do("sparse")) > 100
        parts = control.release(program.path)
        assert parts["broken_pages"] > 50 * HUGE_PAGE
        assert control.release(program.path)["total"] <= 2 * HUGE_PAGE
        if parts["mappings"] > 0:
            break
    assert parts["mappings"] >= 4 * HUGE_PAGE
    program.end()


def test_get_knows_every_named_value(program: Program):
    assert control.ask(program.path, "get version").strip() == places.version()
    for name, _ in contracts.rows("commands.def", "NAMED_VALUE"):
        control.ask(program.path, f"get {name}")


def test_unknown_commands_get_the_list_of_known_ones(program: Program):
    with pytest.raises(control.ControlError, match=r"ping stats get .* window heap release"):
        control.ask(program.path, "nonsense")
    with pytest.raises(control.ControlError, match="takes no argument"):
        control.ask(program.path, "ping twice")
    with pytest.raises(control.ControlError, match="set NAME VALUE"):
        control.ask(program.path, "set")

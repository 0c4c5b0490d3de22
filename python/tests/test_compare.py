# SPDX-License-Identifier: Apache-2.0
"""`llamalloc compare` on a small server, and its figures and messages."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.programs import compiled

from llamalloc.formats.units import bytes_text
from llamalloc.reporting import compare_page
from llamalloc.running import compare, launch, load_figures, procmem, server
from llamalloc.running.compare import Measured, Row, Variant
from llamalloc.running.server import free_port, listens

LLAMALLOC = [sys.executable, "-m", "llamalloc.cli", "compare"]
# Keeps `argv[2]` bytes for each connection. It ends in order at SIGTERM; at 'x' it crashes.
SERVER = r"""
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static void end(int signal) { _exit(0); }
int main(int argc, char **argv) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                           .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  signal(SIGTERM, end);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, (void *)&at, sizeof at) || listen(fd, 9)) return perror("bind"), 1;
  for (;;) {
    int client = accept(fd, 0, 0);
    char byte = 0;
    read(client, &byte, 1);
    if (byte == 'x') abort();
    size_t bytes = strtoul(argv[2], 0, 10);
    memset(malloc(bytes), 1, bytes);
    write(client, "k", 1);
    close(client);
  }
}
"""
LOAD = """
import socket, sys
for _ in range(5):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
        s.sendall(sys.argv[2].encode())
        s.recv(1)
print("speed 500 requests per second, p99 2.5 ms")
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    launch.find_library()
    folder = tmp_path_factory.mktemp("compare")
    (folder / "load.py").write_text(LOAD)
    return compiled(folder / "server", SERVER), folder / "load.py"


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [*LLAMALLOC, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def loading(load: Path, port: int, byte: str = "k") -> str:
    return f"{sys.executable} {load} {port} {byte}"


def test_a_server_is_compared(small: tuple[Path, Path], tmp_path: Path) -> None:
    server, load = small
    port, page = free_port(), tmp_path / "c.html"
    words = ("--rounds", 2, "--settle", 0.1, "--only", "llamalloc,learns-1,learns-2", "-o", page)
    done = run(*words, "--load", loading(load, port), "--", server, port, 3_000_000)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "500/s" in lines["shipped"] and "2.5 ms" in lines["shipped"]
    for name in ("llamalloc", "learns-1", "learns-2"):
        ratios = [float(n) for n in re.findall(r"\d+\.\d+", lines[name])]
        assert len(ratios) >= 4 and all(0.1 < n < 20 for n in ratios), lines[name]
        assert ratios[-2:] == [1.0, 1.0]  # what the load prints is always the same
    text = page.read_text()
    assert "How it was measured" in text and str(port) in text and "data:image/png" in text
    assert "http://" not in text.replace("http://127", "") and "<script" not in text


def test_the_server_may_say_itself_when_it_is_ready(
    small: tuple[Path, Path], tmp_path: Path
) -> None:
    server, load = small
    port, mark = free_port(), tmp_path / "before"
    done = run(
        *("--rounds", 1, "--settle", 0, "--only", "llamalloc", "-o", tmp_path / "c.html"),
        *("--before", f"echo x >> {mark}", "--throughput", r"speed (\d+)"),
        *("--ready", loading(load, port), "--load", loading(load, port)),
        *("--", server, port, 1000),
    )
    assert done.returncode == 0, done.stderr
    assert mark.read_text() == "x\nx\n" and "500/s" in done.stdout


def test_a_server_in_the_current_folder_is_found(
    small: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, load = small
    monkeypatch.chdir(server.parent)
    port = free_port()
    words = ("--rounds", 1, "--settle", 0, "--only", "llamalloc", "-o", tmp_path / "c.html")
    done = run(*words, "--load", loading(load, port), "--", "./server", port, 1000)
    assert done.returncode == 0, done.stderr


def test_what_runs_ends_with_it(small: tuple[Path, Path], tmp_path: Path) -> None:
    port, mark = free_port(), tmp_path / "load"
    load = f"echo $$ > {mark}; sleep 60; true"
    words = ("--only", "llamalloc", "-o", tmp_path / "c.html", "--load", load)
    command = [*LLAMALLOC, *map(str, words), "--", small[0], str(port), "1000"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as comparing:
        try:
            until(lambda: mark.exists() and mark.read_text().endswith("\n"))
            comparing.terminate()
            assert comparing.wait(60) == 128 + signal.SIGTERM
        finally:
            comparing.kill()
    until(lambda: not Path("/proc", mark.read_text().strip()).exists())
    assert not listens(port)


def test_a_load_ends_with_it_however_early(small: tuple[Path, Path], tmp_path: Path) -> None:
    """SIGTERM comes while the load is being started."""
    mark = tmp_path / "load"
    load = f"echo $$ > {mark}; kill $PPID; sleep 60; true"
    words = ("--only", "llamalloc", "-o", tmp_path / "c.html", "--load", load)
    for _ in range(3):
        assert run(*words, "--", small[0], free_port(), 1000).returncode == 128 + signal.SIGTERM
        assert not Path("/proc", mark.read_text().strip()).exists()


def test_complete_rounds_are_shown_when_a_later_one_fails(
    small: tuple[Path, Path], tmp_path: Path
) -> None:
    mark, page = tmp_path / "loads", tmp_path / "c.html"
    load = f"echo x >> {mark}; test $(wc -l < {mark}) -lt 4"
    words = ("--rounds", 3, "--settle", 0, "--only", "llamalloc", "-o", page)
    done = run(*words, "--load", load, "--", small[0], free_port(), 1000)
    assert done.returncode == 1 and "shipped" in done.stdout
    assert "the load command ended with 1" in done.stderr
    assert "the first round is shown" in done.stderr
    assert "Rounds: 1;" in page.read_text()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_page_that_cannot_be_written_at_the_end_is_one_line(small: tuple[Path, Path]) -> None:
    server, load = small
    port = free_port()
    words = ("--rounds", 1, "--settle", 0, "--only", "llamalloc", "-o", "/dev/full")
    done = run(*words, "--load", loading(load, port), "--", server, port, 1000)
    assert done.returncode == 1 and "shipped" in done.stdout
    assert done.stderr.endswith("llamalloc: /dev/full: No space left on device\n"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("load", "said"), [
    ("echo broken; exit 3", "the load command ended with 3: broken"),
    ("{crash}", "the server ended by signal 6 under the load"),
])  # fmt: skip
def test_a_run_that_fails_is_one_message(
    load: str, said: str, small: tuple[Path, Path], tmp_path: Path
) -> None:
    server, loader = small
    port = free_port()
    load = load.format(crash=loading(loader, port, "x"))
    words = ("--rounds", 1, "--settle", 0, "--only", "llamalloc", "-o", tmp_path / "c.html")
    done = run(*words, "--load", load, "--", server, port, 1000)
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert done.stderr.count("\n") == 2  # one of them: what runs
    assert not (tmp_path / "c.html").exists()


def test_a_busy_port_is_told(small: tuple[Path, Path], tmp_path: Path) -> None:
    server, load = small
    port = free_port()
    with subprocess.Popen([server, str(port), "1000"]) as other:
        deadline = time.monotonic() + 30
        while run_once(load, port) != 0:
            assert other.poll() is None and time.monotonic() < deadline
        words = ("--rounds", 1, "--only", "llamalloc", "-o", tmp_path / "c.html")
        done = run(*words, "--load", loading(load, port), "--", server, port, 1000)
        other.terminate()
    assert done.returncode == 1
    assert "ended with 1 at its start" in done.stderr and "in use" in done.stderr, done.stderr


def run_once(load: Path, port: int) -> int:
    command = [sys.executable, load, str(port), "k"]
    return subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.parametrize(("words", "said"), [
    ((), "--load CMD is missing"),
    (("--load", "true", "--only", "dlmalloc"), "no allocator 'dlmalloc'; there are: shipped"),
    (("--load", "true", "--only", "learns-2"), "name both"),
    (("--load", "true", "--throughput", "(a"), "no regular expression"),
    (("--load", "true", "--throughput", "a"), "put the number in parentheses"),
    (("--load", "true", "-o", "/no/such/c.html"), "cannot be written"),
    (("--load", "true", "-o", "/proc/c.html"), "cannot be written"),
    (("--load", "true", "--conf", "nonsense:1"), "no option 'nonsense'"),
])  # fmt: skip
def test_wrong_use_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = run(*words, "--", "sleep", "1")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert said in done.stderr


def test_an_allocator_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare.Entry, "is_installed", lambda self: False)
    with pytest.raises(compare.CompareError, match="apt-get install libjemalloc2"):
        compare.variants(Path("/bin/sleep"), ["jemalloc"])
    names = [v.name for v in compare.variants(Path("/bin/sleep"))]
    assert names == ["shipped", "llamalloc", "learns-1", "learns-2"]


@pytest.mark.parametrize(("output", "rate", "p99"), [
    ("Requests/sec:  12345.60\n  Thread Stats\n     99%   12.50ms\n", 12345.6, 12.5),
    ("     99%  850.00us\nRequests/sec:    100.00\n", 100, 0.85),
    ("Requests per second:    1234.56 [#/sec] (mean)\n  98%  3\n  99%     12\n 100%  90\n",
     1234.56, 12),
    ("    transactions:         1000   (99.5 per sec.)\n", 99.5, None),
    ("tps = 812.5 (without initial connection time)\n", 812.5, None),
    ("SET: 100.00 requests per second, p50=0.1 msec\nGET: 300.00 requests per second\n", 150, None),
    ('"test","rps","p99_latency_ms"\n"SET","100.0","7"\n"GET","300.0","9.5"\n', 150, 9.5),
    ("  throughput summary: 50.5 requests per second\n  latency summary (msec):\n"
     "          avg       min       p50       p95       p99       max\n"
     "        0.1 0.1 0.2 0.3 4.5 9.9\n", 50.5, 4.5),
    ("did 1,234 ops/s\n", 1234, None), ("nothing to see\n", None, None), ("", None, None),
])  # fmt: skip
def test_figures_of_load_programs(output: str, rate: float | None, p99: float | None) -> None:
    found = load_figures.read(output)
    assert found.per_second == (None if rate is None else pytest.approx(rate))
    assert found.p99_ms == (None if p99 is None else pytest.approx(p99))


def test_ratios_are_to_the_same_round() -> None:
    shipped = Row(Variant("shipped", "as shipped"))
    ours = Row(Variant("llamalloc", "llamalloc", "/lib"))
    for base, own in ((100, 80), (200, 180), (400, 200)):
        shipped.runs.append(Measured(base << 20, base << 20, per_second=base))
        ours.runs.append(Measured(own << 20, own << 20, per_second=own))
    columns = compare.columns([shipped, ours])
    assert [c.name for c in columns] == ["rss", "rss_peak", "per_second"]  # no group, no latency
    first, second = compare_page.cells([shipped, ours], columns)
    assert first == ["as shipped", bytes_text(200 << 20), bytes_text(200 << 20), "200/s"]
    assert second == ["llamalloc", "0.80 (0.90)", "0.80 (0.90)", "0.80 (0.50)"]


def test_a_server_that_takes_its_time_is_asked_ever_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(server.time, "sleep", pauses.append)
    started = server.Server(["sleep", "60"], None, tmp_path / "output")
    try:
        started.wait_until(lambda: len(pauses) == 20, 60)
    finally:
        started.kill()
    assert pauses[0] == 0.02 and pauses == sorted(pauses) and pauses[-1] == 0.25


def test_workers_end_with_their_server(tmp_path: Path) -> None:
    """Also where it ends in good order, or cannot pass the signal on."""
    for end in ("", "trap 'exit 0' TERM; "):
        script = f"{end}sleep 61 & sleep 62 & echo $! $(jobs -p); wait"
        started = server.Server(["bash", "-c", script], None, tmp_path / "output")
        while not (pids := (tmp_path / "output").read_text().split()):
            time.sleep(0.01)
        started.kill(patience=5 if end else 0)
        deadline = time.monotonic() + 20
        while (left := [pid for pid in pids if procmem.start_of(int(pid))]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.01)
        assert len(pids) >= 2 and not left


def test_a_ready_command_that_never_ends_is_given_up(tmp_path: Path) -> None:

    def wait(command: list[str], patience: float) -> None:
        plan = compare.Plan(tuple(command), "true", ready="sleep 100", patience=patience)
        at_work = server.Server(command, None, tmp_path / "output")
        try:
            compare._wait_until_ready(plan, at_work, Variant("shipped", "as shipped"))
        finally:
            at_work.kill()

    started = time.monotonic()
    with pytest.raises(compare.CompareError, match="ended with 3 at its start"):
        wait(["sh", "-c", "sleep 0.3; exit 3"], 60.0)
    with pytest.raises(compare.CompareError, match="takes no requests after 1 s"):
        wait(["sleep", "60"], 1.0)
    assert time.monotonic() - started < 30

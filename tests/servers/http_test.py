# SPDX-License-Identifier: Apache-2.0
"""HTTP as real clients see it: curl, promtool, `go tool pprof`, and clients that do harm.

Needs curl; promtool (Debian: prometheus) and Go for a part of it, and says when it is skipped.
"""

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from preload import compile_program, environment

from llamalloc.formats import contracts
from llamalloc.formats.pprof_proto import ProfileMessage
from llamalloc.running import charge

MIB = 1 << 20
PROFILES = ("heap", "allocs", "lifetimes", "pinned")


def curl(address: str, path: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    url = f"http://{address}{path}"
    if address.startswith("unix:"):
        url = f"http://any.name{path}"
        options = ("--unix-socket", address.removeprefix("unix:"), *options)
    return subprocess.run(
        ["curl", "-sS", *options, url], capture_output=True, timeout=60, check=False
    )


def get(address: str, path: str) -> bytes:
    done = curl(address, path, "--fail")
    assert done.returncode == 0, done.stderr
    return done.stdout


class Program:
    """tests/servers/http_load.cc under `http:ADDRESS`; `address` is where it listens."""

    def __init__(self, address: str = "127.0.0.1:0", conf: str = "sample_interval:4KiB") -> None:
        self.process = subprocess.Popen(
            [compile_program("http_load")],
            env=environment(f"http:{address},{conf}"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n"
        self.address = address
        if address.endswith(":0"):
            said = self.process.stderr.readline()
            self.address = re.fullmatch(r"llamalloc: http: listening on http://(.*)/\n", said)[1]

    def do(self, line: str) -> str:
        self.start(line)
        return self.process.stdout.readline().strip()

    def start(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def get(self, path: str) -> bytes:
        return get(self.address, path)

    def curl(self, path: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        return curl(self.address, path, *options)

    def status(self, path: str, *options: str) -> int:
        done = self.curl(path, "-o", "/dev/null", "-w", "%{http_code}", *options)
        return int(done.stdout)

    def profile(self, name: str) -> ProfileMessage:
        profile = ProfileMessage()
        profile.ParseFromString(gzip.decompress(self.get(f"/debug/pprof/{name}")))
        return profile

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host.strip("[]"), int(port)), timeout=30)

    def end(self) -> str:
        """Waits for exit 0; what it wrote to stderr since."""
        _, err = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, err
        return err

    def close(self) -> None:
        self.process.kill()
        with contextlib.suppress(ValueError):
            self.process.communicate()


@pytest.fixture
def program() -> Iterator[Program]:
    started = Program()
    yield started
    started.close()


def texts(profile: ProfileMessage) -> list[str]:
    return [text.decode() for text in profile.string_table]


def by_site(profile: ProfileMessage) -> dict[str, dict[str, int]]:
    """Sums of the values by the innermost function that is the program's own."""
    strings = texts(profile)
    names = {f.id: strings[f.name] for f in profile.function}
    sites = {loc.id: names[loc.line[0].function_id] for loc in profile.location}
    types = [strings[t.type] for t in profile.sample_type]
    sums: dict[str, dict[str, int]] = {}
    for sample in profile.sample:
        stack = [sites[i] for i in sample.location_id]
        site = next((s for s in stack if s in ("_Z4keepm", "_Z5churnm")), "other")
        for kind, value in zip(types, sample.value, strict=True):
            sums.setdefault(site, dict.fromkeys(types, 0))[kind] += value
    return sums


def metrics(text: bytes) -> dict[str, float]:
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_the_index_leads_to_every_page(program: Program):
    index = program.get("/").decode()
    pages = [row[1] for row in contracts.rows("http.def", "HTTP_PAGE")]
    assert set(re.findall(r'href="([^"]+)"', index)) == set(pages)
    for page in pages:
        assert program.status(page) == 200
        assert program.status(page, "--head") == 200


@pytest.mark.parametrize("address", ["[::1]:0", "unix:{}/x.sock"])
def test_other_addresses(address: str, tmp_path: Path):
    program = Program(address.format(tmp_path))
    try:
        assert b"llamalloc_allocated_bytes " in program.get("/metrics")
        if address.startswith("unix"):
            assert (tmp_path / "x.sock").stat().st_mode & 0o777 == 0o600
        assert program.end() == ""
        assert not (tmp_path / "x.sock").exists()
    finally:
        program.close()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "nonsense", "unix:/nowhere/x"])
def test_what_cannot_be_served_is_one_line(address: str):
    process = subprocess.run(
        [compile_program("http_load")], env=environment(f"http:{address}"), input="end\n",
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert len(process.stderr.splitlines()) == 1, process.stderr
    assert "continuing without it" in process.stderr


def test_anywhere_has_to_be_allowed():
    program = Program("0.0.0.0:0", "http_anywhere:on")
    try:
        assert program.status("/metrics") == 200
    finally:
        program.close()


def test_metrics_say_what_the_program_did(program: Program):
    before = metrics(program.get("/metrics"))
    program.do(f"keep {MIB // 4} 100")
    after = metrics(program.get("/metrics"))
    grown = after["llamalloc_allocated_bytes"] - before["llamalloc_allocated_bytes"]
    assert 25 * MIB <= grown < 30 * MIB
    for gauge in ("active", "metadata", "resident", "mapped", "retained"):
        assert f"llamalloc_{gauge}_bytes" in after
    assert after["llamalloc_active_bytes"] >= after["llamalloc_allocated_bytes"]
    assert after["llamalloc_mapped_bytes"] >= after["llamalloc_resident_bytes"] > 25 * MIB
    document = json.loads(program.get("/stats.json"))
    stats = document["stats"]
    if (group := charge.of_process(program.process.pid)) is not None:
        own = group.read().charge
        for said in (document["charge"], after["llamalloc_charge_bytes"]):
            assert said > 25 * MIB
            assert said == pytest.approx(own, rel=0.5, abs=64 * MIB)
    for stat in contracts.stats():
        if stat.name in ("metadata", "resident", "mapped"):
            continue
        if (stat.unit, stat.kind) == ("bytes", "gauge"):
            assert after[f"llamalloc_{stat.name}_bytes"] == pytest.approx(
                stats[stat.name], abs=MIB
            ), stat.name


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool (Debian: prometheus) is missing")
def test_promtool_accepts_the_metrics(program: Program):
    text = program.get("/metrics")
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_the_heap_profile_shows_what_is_in_use(program: Program):
    program.do("keep 2000 10000")
    program.do("churn 3000 10000")
    profile = program.profile("heap")
    types = [texts(profile)[t.type] for t in profile.sample_type]
    assert types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]
    assert texts(profile)[profile.default_sample_type] == "inuse_space"
    sites = by_site(profile)
    assert sites["_Z4keepm"]["inuse_space"] == pytest.approx(20e6, rel=0.2)
    assert sites["_Z4keepm"]["inuse_objects"] == pytest.approx(10_000, rel=0.2)
    assert sites["_Z5churnm"]["inuse_space"] == 0
    assert sites["_Z5churnm"]["alloc_space"] == pytest.approx(30e6, rel=0.2)


def test_profiles_of_the_next_seconds(program: Program):
    program.do("churn 2000 10000")
    for name in ("allocs", "lifetimes"):
        with program.connect() as client, client.makefile("rb") as stream:
            path = f"/debug/pprof/{name}?seconds=3"
            client.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            program.get("/")  # asked later, so that one has begun
            program.do("keep 2000 10000")
            head, _, data = stream.read().partition(b"\r\n\r\n")
        assert b" 200 " in head.splitlines()[0]
        profile = ProfileMessage()
        profile.ParseFromString(gzip.decompress(data))
        assert 3e9 <= profile.duration_nanos < 30e9
        sites = by_site(profile)
        space = "alloc_space" if name == "allocs" else "allocated_space"
        assert sites["_Z4keepm"][space] == pytest.approx(20e6, rel=0.2)
        assert sites.get("_Z5churnm", {space: 0})[space] == 0


def test_a_profile_over_time_ends_with_its_client_and_hinders_no_other(program: Program):
    path = "/debug/pprof/allocs?seconds="
    with program.connect() as client:
        client.sendall(f"GET {path}60 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        program.get("/")  # asked later, so that one has begun
        assert program.status(f"{path}0") == 503
        assert program.status("/debug/pprof/heap") == 200
    deadline = time.monotonic() + 10
    while program.status(f"{path}0") != 200:
        assert time.monotonic() < deadline


def test_a_child_began_when_it_was_forked(tmp_path: Path):
    """A worker that was started anew after a week is not a week old."""
    script = (
        "import os, time; time.sleep(2); os.fork(); t = time.time() + 20\n"
        "while time.time() < t: x = bytearray(1 << 20); time.sleep(0.01)"
    )
    env = environment(f"http:unix:{tmp_path}/x.%p.sock")
    with subprocess.Popen(
        [sys.executable, "-c", script], env=env, start_new_session=True
    ) as process:
        try:
            deadline = time.monotonic() + 20
            while len(sockets := list(tmp_path.glob("x.*.sock"))) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            starts = {}
            for path in sockets:
                said = metrics(get(f"unix:{path}", "/metrics"))
                starts[path.name] = said["llamalloc_start_time_seconds"]
            parent = starts.pop(f"x.{process.pid}.sock")
            (child,) = starts.values()
            assert 1.9 < child - parent < 20
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_pinned_is_the_whole_heap(program: Program):
    program.do("keep 2000 20000")
    sites = by_site(program.profile("pinned"))["_Z4keepm"]
    used = json.loads(program.get("/stats.json"))["stats"]["huge_pages_used"] * 2 * MIB
    assert sites["pinned_space"] == pytest.approx(used, rel=0.25)
    assert sites["pinned_space"] >= sites["inuse_space"]


@pytest.mark.skipif(not shutil.which("go"), reason="Go (Debian: golang-go) is missing")
@pytest.mark.parametrize("name", PROFILES)
def test_go_tool_pprof_opens_the_profiles(program: Program, name: str, tmp_path: Path):
    program.do("keep 2000 10000")
    program.do("churn 2000 10000")
    url = f"http://{program.address}/debug/pprof/{name}"
    shown = subprocess.run(
        ["go", "tool", "pprof", "-top", url],
        capture_output=True, text=True, timeout=300,
        env=os.environ | {"PPROF_TMPDIR": str(tmp_path)},
        check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"\bkeep\b", shown.stdout), shown.stdout
    preset = {"heap": "inuse_space", "allocs": "alloc_space", "pinned": "pinned_space"}
    assert f"Type: {preset.get(name, 'allocated_space')}" in shown.stdout


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /nothing HTTP/1.1\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n", 403),
        (b"GET /debug/pprof/allocs?seconds=1e9 HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + 9000 * b"x" + b"\r\n\r\n", 431),
        (b"GET / HT", 408),
    ],
)
def test_wrong_requests_get_a_reason(program: Program, request_text: bytes, status: int):
    with program.connect() as client:
        client.sendall(request_text)
        reply = b""
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(4096):
                reply += part
    assert reply.startswith(b"HTTP/1.1 %d " % status), reply[:100]
    assert program.status("/metrics") == 200


def test_a_thousand_bad_clients_cost_nobody_anything(program: Program):
    """Half open, slow, malformed, and ones that do not read. In the best of several rounds."""
    longest, answered = [], []
    for _ in range(5):
        program.start("time 1")
        with contextlib.ExitStack() as clients:
            for i in range(250):
                client = clients.enter_context(program.connect())
                with contextlib.suppress(OSError):
                    client.sendall(
                        (b"", b"GET /me", b"\x00\n\n\n", b"GET /stats.json HTTP/1.1\r\n\r\n")[i % 4]
                    )
            began = time.monotonic()
            assert program.status("/metrics") == 200
            answered.append(time.monotonic() - began)
        longest.append(float(program.process.stdout.readline()))
    assert min(longest) < 0.5, longest
    assert min(answered) < 10, answered


def test_a_huge_page_is_looked_at_closely(program: Program):
    program.do("keep 2000 10000")
    heap = json.loads(program.get("/heap.json"))
    used = json.loads(program.get("/stats.json"))["stats"]["huge_pages_used"]
    assert len(heap["pages"]) == used >= 10
    row = heap["pages"][used // 2]
    look = json.loads(program.get(f"/heap.json?page={row[0]}"))
    assert look["group"] == heap["groups"][row[1]][0]
    assert look["sites"][0]["frames"][0] == "_Z4keepm"
    assert sum(blocks for _, blocks, *_ in look["spans"]) <= row[3] + 64
    for wrong, status in {"x": 400, "-1": 400, "9" * 30: 400, "": 400, "1": 404}.items():
        assert program.status(f"/heap.json?page={wrong}") == status


def test_a_browser_may_run_only_what_the_page_holds(program: Program):
    head = program.curl("/heap", "--head").stdout.decode()
    assert "Content-Security-Policy: default-src 'none'" in head
    assert "Content-Encoding: gzip" in head
    page = gzip.decompress(program.get("/heap")).decode()
    assert not re.search(r"https?://|src=|href=|@import|url\(", page)


def test_a_child_serves_nothing_and_says_nothing(program: Program):
    child = int(program.do("fork"))
    assert program.status("/metrics") == 200
    os.kill(child, signal.SIGKILL)
    assert program.end() == ""


@pytest.mark.parametrize("page", ["/metrics", "/stats.json"])
def test_no_child_gets_the_files_that_a_page_reads(program: Program, page: str):
    """A fork waits while the descriptors of the control group's files are open."""
    ended = threading.Event()

    def ask_again_and_again() -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), program.connect() as client:
                client.sendall(f"GET {page} HTTP/1.0\r\n\r\n".encode())
                while client.recv(1 << 16):
                    pass

    askers = [threading.Thread(target=ask_again_and_again) for _ in range(4)]
    for asker in askers:
        asker.start()
    children = program.do("forks 1500")
    ended.set()
    for asker in askers:
        asker.join()
    assert children == "0"

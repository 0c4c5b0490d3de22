# SPDX-License-Identifier: Apache-2.0
"""Servers and processes that are not what they should be: one clear error, and no traceback."""

import gzip
import http.server
import io
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from llamalloc.cli import call
from llamalloc.reporting import live_view
from llamalloc.running import live, published

STATS = json.dumps({"pid": 0, "command": "x", "stats": {}, "groups": [], "segregation": ""})
EMPTY = gzip.compress(b"", mtime=0)


@contextmanager
def serving(answers: dict[str, bytes], status: int = 200) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answers.get(self.path, b""))

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("stats", "heap"),
    [
        (b"<html>", b""),
        (b"{}", b""),
        (b"[]", b""),
        (b"\xff", b""),
        (STATS.encode(), b"no gzip"),
        (STATS.encode(), gzip.compress(b"cut", mtime=0)[:-4]),
        (STATS.encode(), gzip.compress(b"\xff", mtime=0)),
    ],
)
def test_a_wrong_answer_is_one_error(stats: bytes, heap: bytes) -> None:
    pages = {"/stats.json": stats, "/debug/pprof/heap": heap}
    with serving(pages) as address, pytest.raises(live.LiveError, match="cannot be read"):
        live.look(address)


@pytest.mark.parametrize("address", ["localhost:x", "127.0.0.1:99999", "a b", "." * 80, "²"])
def test_a_wrong_address_is_one_error(address: str) -> None:
    with pytest.raises(live.LiveError):
        live.look(address)


def test_the_charge_is_what_the_server_says_where_the_system_does_not() -> None:
    document = json.loads(STATS) | {"charge": 12345}
    pages = {"/stats.json": json.dumps(document).encode(), "/debug/pprof/heap": EMPTY}
    with serving(pages) as address:
        assert live.look(address).charge == 12345


def test_a_busy_server_is_told_from_a_wrong_one() -> None:
    with serving({}, 503) as address, pytest.raises(live.BusyError):
        live.look(address)


def test_an_address_counts_only_in_our_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert live.shares_network(os.getpid())
    for name in ("self", "1"):
        (tmp_path / name / "ns").mkdir(parents=True)
        (tmp_path / name / "ns/net").touch()
    monkeypatch.setattr(live, "PROC", tmp_path)
    assert not live.shares_network(1) and not live.shares_network(2)


def test_a_mapped_path_may_be_no_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1").mkdir()
    line = b"00001000-00002000 r--p 00000000 08:01 7   /x/\xff/libllamalloc.so\n"
    (tmp_path / "1/maps").write_bytes(line)
    monkeypatch.setattr(published, "PROC", tmp_path)
    assert published._candidates(1)[0] == (0x1000, "/x/\udcff/libllamalloc.so")


@pytest.mark.parametrize("error", [OverflowError("too big"), ValueError("negative")])
def test_senseless_counters_are_one_error(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(published, "_find_block", fail)
    with pytest.raises(published.PublishedError, match=str(error)):
        published.read(os.getpid())


def test_top_says_when_the_process_has_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process = subprocess.Popen(["sleep", "60"])

    def looks(target: str) -> Iterator[live.Look]:
        yield live.Look(process.pid, "sleep", 0.0, {}, [], "", False, "")
        process.kill()
        process.wait()
        raise live.LiveError(f"{target}: no such process")

    look = looks(str(process.pid))
    monkeypatch.setattr(live, "look", lambda _: next(look))
    assert call(["top", str(process.pid), "--interval", "0.1"]) == 1
    assert capsys.readouterr().err == f"llamalloc: {process.pid}: has ended\n"


def test_a_call_site_keeps_what_stands_in_brackets() -> None:
    """And one such as b[/b] is no end of a style."""
    sites = {"f[abi:cxx11]": 5000, "g[/b]": 6000}
    one = live.Look(1, "server", 1.0, {}, [], sites=sites)
    console = Console(width=100, file=io.StringIO())
    for table in live_view._sites(one, one):
        console.print(table)
    said = console.file.getvalue()
    assert "f[abi:cxx11]" in said and "g[/b]" in said

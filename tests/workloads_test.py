# SPDX-License-Identifier: Apache-2.0
"""Every workload that can run here, small, under the library; and the microbenchmark's figures."""

import json
import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from lab import redis, redis_clients
from lab.workloads import alternate, batches, buffers, given_back, idle, limited, runner, swing
from lab.workloads.programs import ALL
from lab.workloads.programs.images import Images
from lab.workloads.recipe import built
from llamalloc.running import launch
from llamalloc.running.server import ServerError, free_port, listens


@pytest.mark.parametrize("recipe", ALL, ids=lambda recipe: recipe.name)
def test_a_workload_runs_under_the_library(recipe):
    if recipe.missing():
        pytest.skip(f"not installed: {', '.join(recipe.missing())}")
    options = runner.Options(preload=str(launch.find_library()), scale=0.02, settle=0)
    outcome = runner.run(recipe, options, lambda text: None)
    assert outcome.seconds > 0
    assert (outcome.live > 1 << 20) == recipe.name.startswith("redis"), "it says what is live"


@pytest.fixture
def image_service():
    recipe = Images()
    if recipe.missing():
        pytest.skip(f"not installed: {', '.join(recipe.missing())}")
    port = free_port()
    with subprocess.Popen([built("images"), "serve", str(port)]) as process:
        while not listens(port):
            assert process.poll() is None
            time.sleep(0.02)
        yield process, port
        process.kill()


def _post(port):
    """Its answer to what is no picture."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/transform", b"no picture")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_the_image_service_resets_no_client_while_it_gets_no_processor(image_service):
    process, port = image_service
    process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor(24) as clients:
        answers = [clients.submit(_post, port) for _ in range(24)]
        time.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        assert [answer.result().status for answer in answers] == [400] * 24


def test_the_image_service_waits_for_clients_that_get_no_processor(image_service):
    _, port = image_service
    seconds = re.search(r"timeout=(\d+)", _post(port).headers["Keep-Alive"])
    assert int(seconds[1]) >= 60


def test_the_heap_that_swings_leaves_survivors_together(tmp_path, capsys):
    file = tmp_path / "figures.json"
    load = ["--peak", "64", "--survivors", "128"]
    apart = ["--conf", "share_pages_below:0"]  # so small a heap would share them
    assert swing.main(["--only", "glibc,learned", "--json", str(file), *apart, "--", *load]) == 0
    glibc, learned = json.loads(file.read_text())
    assert glibc["survivors"] == learned["survivors"] == 128 << 10
    assert glibc["survivor_huge_pages"] > 25  # nearly all of the heap
    assert learned["survivor_huge_pages"] <= 5
    for row in (glibc, learned):
        sizes = row["memory"]["charge"] or row["memory"]["rss"]
        assert 64 << 20 <= row["memory"]["live"] < sizes["peak"] >= sizes["average"] >= 1 << 20
    said = capsys.readouterr()
    assert "learned" in said.out and "swing: learned" in said.err
    assert "average" in said.out and "peak /" in said.out


LOADS = (
    (alternate, ["--turns", "2", "--turn", "4", "--base", "1"]),
    (buffers, ["--count", "3", "--least", "1", "--most", "3", "--steps", "9"]),
    (buffers, ["--count", "3", "--least", "1", "--most", "3", "--steps", "9", "--requests"]),
    (buffers, ["--count", "9", "--least", "129", "--most", "900", "--kib", "--steps", "9"]),
    (limited, ["--live", "8", "--bursts", "3"]),
    (idle, ["--burst", "8", "--seconds", "0.2"]),
    (idle, ["--burst", "8", "--seconds", "0.2", "--stays", "20"]),
)


@pytest.mark.parametrize(("module", "words"), LOADS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_load_program_is_measured_on_llamalloc_and_a_peer(module, words, tmp_path, capsys):
    file = tmp_path / "figures.json"
    common = ["--allocators", "llamalloc,glibc", "--runs", "1", "--json", str(file)]
    assert module.main([*common, "--lib", str(launch.find_library()), *words]) == 0
    said = capsys.readouterr().out
    assert "llamalloc" in said and "glibc" in said and "/ best" in said
    for rows in json.loads(file.read_text())["loads"].values():
        for row in rows:
            (run,) = row["runs"]
            memory = run["memory"]
            peak = (memory["charge"] or memory["rss"])["peak"]
            assert peak > memory["live"] == run["said"]["live"] >= 3 << 20
            assert 0 < memory["rss"]["average"] <= memory["rss"]["peak"]
            if module is limited:
                said = run["said"]
                assert said["malloc_p50"] <= said["malloc_p999"] and said["calls"] > 1000


def test_what_goes_back_is_measured_by_the_charge(tmp_path, capsys):
    file = tmp_path / "figures.json"
    words = ["--runs", "1", "--live", "24", "--only", "empty,mappings", "--json", str(file)]
    status = given_back.main([*words, "--lib", str(launch.find_library())])
    said = capsys.readouterr()
    if given_back.NO_GROUP in said.err:
        assert status == 1
        pytest.skip("no control group can be made here")
    assert status == 0 and "run 1 of 1: mappings" in said.err and "freed mappings" in said.out
    for (run,) in json.loads(file.read_text())["kinds"].values():
        assert run["counted"] > 12 << 20 and run["left"] <= run["counted"]


def test_the_swing_names_an_unknown_row(capsys):
    assert swing.main(["--only", "nosuch"]) == 2
    assert "no row nosuch; there are glibc," in capsys.readouterr().err


@pytest.fixture
def redis_server(tmp_path):
    server = redis.RedisServer([], dict(os.environ), tmp_path, "redis")
    yield server
    server.stop()


def test_a_server_may_have_a_relative_folder(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path)
    server = redis.RedisServer([], dict(os.environ), Path("logs"), "redis")
    assert server.stop() == []
    assert (tmp_path / "logs" / "redis.log").is_file()


def test_each_key_is_set_once_and_deleted_once(redis_server):
    def keys():
        return redis_server.client.info("keyspace").get("db0", "keys=0").split(",")[0]

    address = redis_server.address
    assert redis_clients.send(address, 20, redis_clients.sets(range(500), 1024)) > 0
    assert keys() == "keys=500"
    redis_clients.send(address, 300, redis_clients.deletes(range(200)))
    assert keys() == "keys=300"
    with pytest.raises(ServerError, match="unknown command"):
        redis_clients.send(address, 1, iter([b"*1\r\n$3\r\nNOP\r\n"]))


def test_batches_of_keys_come_and_go(tmp_path, capsys):
    file = tmp_path / "figures.json"
    size = ["--keys", "4000", "--connections", "50", "--batches", "2", "--wait", "0.5"]
    assert batches.main(["--only", "static,auto,glibc", "--json", str(file), *size]) == 0
    said = capsys.readouterr()
    assert "batch 2 of 2" in said.err and "live at most" in said.out
    rows = json.loads(file.read_text())["rows"]
    for name, (run,) in rows.items():
        memory = run["memory"]
        peak = (memory["charge"] or memory["rss"])["peak"]
        assert 8000 << 10 < memory["live"] < peak, "two batches of 4,000 KiB"
        assert run["rate"] > 0 and run["faults"] > 0 and 0 <= run["coverage"] <= 1
        assert (run["statistics"] is None) == (name == "glibc")

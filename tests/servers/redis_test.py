# SPDX-License-Identifier: Apache-2.0
"""redis-server under load, its data compared before and after reload, fork and restart."""

import random
import subprocess
import time
from pathlib import Path

from preload import Server, free_port

from lab import redis


def server(folder: Path, port: int, *, preloaded: bool = True) -> Server:
    options = ["--enable-debug-command", "local", "--activerehashing", "yes"]
    return Server([*redis.command(port, folder), *options], port, folder, preloaded=preloaded)


def cli(port: int, *words: str, text_in: str | None = None, seconds: float = 60) -> str:
    command = ["redis-cli", "-p", str(port), *words]
    done = subprocess.run(
        command, input=text_in, capture_output=True, text=True, timeout=seconds, check=True
    )
    return done.stdout.strip()


def commands(seed: int) -> str:
    """Some thousand writes of every data type, the same for the same seed."""
    source = random.Random(seed)
    lines = []
    for i in range(3000):
        value = "v" * source.randrange(2000) + str(source.random())
        lines += [
            f"SET string:{source.randrange(1500)} {value}",
            f"RPUSH list:{source.randrange(50)} {value}",
            f"HSET hash:{source.randrange(50)} field{i} {value[:300]}",
            f"ZADD zset:{source.randrange(20)} {source.random()} member{i}",
            f"SADD set:{source.randrange(20)} {i} member{i}",
            f"APPEND long:{source.randrange(5)} {value}",
            f"DEL string:{source.randrange(1500)}",
        ]
    return "\n".join(lines) + "\n"


def digest(port: int) -> str:
    answer = cli(port, "DEBUG", "DIGEST")
    assert len(answer) == 40
    return answer


def reference_digest(folder: Path) -> str:
    """What an unchanged server says of the data that commands(1) makes."""
    port = free_port()
    with server(folder, port, preloaded=False):
        cli(port, "-n", "1", text_in=commands(1))
        return digest(port)


def bench(port: int) -> subprocess.Popen[str]:
    command = ["redis-benchmark", "-p", str(port), "-q", "-n", "15000", "-c", "200"]
    command += ["-d", "1000", "-r", "5000", "-t", "set,get,lpush,lrange_100,hset,spop"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def save_in_child(port: int) -> None:
    """BGSAVE: a forked child walks the heap while the parent goes on writing."""
    cli(port, "BGSAVE")
    cli(port, "-n", "1", text_in=commands(2))
    while "rdb_bgsave_in_progress:1" in cli(port, "INFO", "persistence"):
        time.sleep(0.05)
    assert "rdb_last_bgsave_status:ok" in cli(port, "INFO", "persistence")


def test_data_survives_load_reload_fork_and_restart(tmp_path):
    expected, port = reference_digest(tmp_path), free_port()
    with server(tmp_path, port):
        load = bench(port)
        cli(port, "-n", "1", text_in=commands(1))
        output, _ = load.communicate(timeout=90)
        assert load.returncode == 0
        assert output.count("requests per second") >= 6
        assert cli(port, "FLUSHDB") == "OK"
        assert digest(port) == expected
        assert cli(port, "DEBUG", "RELOAD") == "OK"
        assert digest(port) == expected
        save_in_child(port)
        assert cli(port, "SAVE") == "OK"
        after = digest(port)
    with server(tmp_path, port):
        assert digest(port) == after
        assert cli(port, "FLUSHALL") == "OK"
        assert cli(port, "DBSIZE") == "0"

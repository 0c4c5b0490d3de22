# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus that scrapes a loaded Redis each second, and what it saw."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lab import redis_benchmark
from lab.live import profiles
from lab.live.target import LiveProofError, environment, get
from lab.redis import RedisServer
from lab.server import Server, free_port

LOAD = redis_benchmark.Workload(clients=100, operations=200_000, value=500, tests="set,get,lpush")
CONFIG = """global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs: [{{job_name: llamalloc, static_configs: [{{targets: ["{}"]}}]}}]
"""
# What must be there: jemalloc's dashboards' six, coverage, charge, release, prediction, learner,
# gate.
NEEDED = (
    *("allocated_bytes", "active_bytes", "metadata_bytes", "resident_bytes", "mapped_bytes"),
    *("retained_bytes", "huge_page_coverage_ratio", "huge_pages_released_total"),
    *("bytes_broken_bytes_total", "hold_empty_seconds", "predict_hits_total", "learning"),
    *("predicted_contexts", "placement", "sampling"),
)


@dataclass
class Scraped:
    """What Prometheus says of its scrapes, and what the other real clients said."""

    seconds: float
    scrapes: int
    failed: int
    series: int
    average_ms: float
    longest_ms: float
    missing: list[str]
    charge: bool  # whether the system tells the charge
    promtool: str  # "" : nothing to complain of
    profiles: list[profiles.Opened] = field(default_factory=list)


def measure(seconds: float, out: Path, say: Callable[[str], None]) -> Scraped:
    """Runs all for so long. Raises LiveProofError if something cannot run."""
    if not shutil.which("prometheus"):
        raise LiveProofError("Prometheus is missing; install it: apt-get install prometheus")
    address, own = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        redis = RedisServer([], environment(f"http:{address}"), folder, "redis")
        stop = threading.Event()
        load = threading.Thread(target=_load, args=(redis, stop), daemon=True)
        try:
            load.start()
            server = _start(folder, address, own)
            try:
                return _watch(seconds, address, own, out, say)
            finally:
                server.terminate()
                if server.wait(20) is None:
                    server.kill()
        finally:
            stop.set()
            load.join()
            if faults := redis.stop():
                say(f"Redis complained: {'; '.join(faults)}")


def _load(redis: RedisServer, stop: threading.Event) -> None:
    while not stop.is_set():
        redis_benchmark.run(LOAD, redis.address, time.monotonic, lambda _: None)


def _start(folder: Path, address: str, own: str) -> Server:
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(address))
    words = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={own}",
    ]  # fmt: skip
    server = Server(words, None, folder / "prometheus.log")
    server.wait_until(lambda: _is_ready(own), 60, "prometheus")
    return server


def _is_ready(own: str) -> bool:
    try:
        return bool(get(own, "/-/ready", 5.0))
    except LiveProofError:
        return False


def _watch(
    seconds: float, address: str, own: str, out: Path, say: Callable[[str], None]
) -> Scraped:
    began = time.monotonic()
    promtool = _promtool(address)
    opened = profiles.open_all(address, out, say)
    while (left := seconds - (time.monotonic() - began)) > 0:
        say(f"Prometheus scrapes a loaded Redis: {left:.0f} s left")
        time.sleep(min(20.0, left))
    window = f"[{seconds:.0f}s]"

    def ask(query: str) -> float:
        found = _query(own, query)
        return float(found[0]["value"][1]) if found else 0.0

    scrapes = ask(f"count_over_time(up{window})")
    names = {row["metric"]["__name__"] for row in _query(own, '{job="llamalloc"}')}
    return Scraped(
        seconds,
        int(scrapes),
        int(scrapes - ask(f"sum_over_time(up{window})")),
        int(ask("scrape_samples_scraped")),
        1000 * ask(f"avg_over_time(scrape_duration_seconds{window})"),
        1000 * ask(f"max_over_time(scrape_duration_seconds{window})"),
        [name for name in NEEDED if f"llamalloc_{name}" not in names],
        "llamalloc_charge_bytes" in names,
        promtool,
        opened,
    )


def _query(own: str, query: str) -> list[dict]:
    path = "/api/v1/query?" + urllib.parse.urlencode({"query": query})
    return json.loads(get(own, path))["data"]["result"]


def _promtool(address: str) -> str:
    if not shutil.which("promtool"):
        return "promtool is not installed"
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=get(address, "/metrics"), capture_output=True, check=False,
    )  # fmt: skip
    return (done.stdout + done.stderr).decode().strip()

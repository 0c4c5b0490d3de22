# SPDX-License-Identifier: Apache-2.0
"""nginx with two workers: files compared byte by byte while it reloads under the clients."""

import http.client
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from preload import Server, free_port

FILES = 100
ROUNDS = 15  # each client fetches every file so often

CONFIGURATION = """
user root;
daemon off;
worker_processes 2;
error_log {folder}/error.log warn;
pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
  access_log off;
  gzip on;
  gzip_types *;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    root {folder}/files;
    location /again/ {{ proxy_pass http://127.0.0.1:{port}/; proxy_buffering on; }}
  }}
}}
"""


def make_files(folder: Path) -> list[bytes]:
    source = random.Random(5)
    contents = [source.randbytes(source.randrange(1, 200_000)) for _ in range(FILES)]
    (folder / "files").mkdir()
    for i, content in enumerate(contents):
        (folder / "files" / f"{i}.bin").write_bytes(content)
    return contents


def fetch_all(port: int, contents: list[bytes], seed: int) -> int:
    """Fetches every file ROUNDS times, directly and through the proxy; returns mismatches."""
    source = random.Random(seed)
    wrong = 0
    for _ in range(ROUNDS):
        for i in source.sample(range(FILES), FILES // 2):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", f"{source.choice(['', '/again'])}/{i}.bin")
            wrong += connection.getresponse().read() != contents[i]
            connection.close()
    return wrong


def test_files_arrive_whole_across_reloads(tmp_path):
    contents, port = make_files(tmp_path), free_port()
    (tmp_path / "nginx.conf").write_text(CONFIGURATION.format(folder=tmp_path, port=port))
    command = ["nginx", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    with Server(command, port, tmp_path) as server, ThreadPoolExecutor(4) as clients:
        jobs = [clients.submit(fetch_all, port, contents, seed) for seed in range(4)]
        while not all(job.done() for job in jobs):
            time.sleep(0.4)
            server.process.send_signal(signal.SIGHUP)
        assert [job.result() for job in jobs] == [0, 0, 0, 0]
    errors = (tmp_path / "error.log").read_text()
    assert "[alert]" not in errors, errors
    assert "[emerg]" not in errors, errors

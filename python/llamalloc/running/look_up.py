# SPDX-License-Identifier: Apache-2.0
"""Takes statistics and profile of a running process, as files that `llamalloc report` reads.

PID ----------> HTTP address, if it has one --> profile and statistics
                control socket, if it has one -> statistics, and the profile if it samples
                its published counters ------> statistics without pages
HOST:PORT, http://HOST:PORT, unix:PATH ------> profile and statistics, by HTTP
path of a control socket --------------------> statistics, and the profile if it samples
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from llamalloc.running import attach, control, live, published
from llamalloc.running.procmem import PROC, read_text, stat_fields

_ADDRESS = re.compile(r"(https?://|unix:)\S+|[\w.-]+:\d+|\[[0-9a-fA-F:.]+\]:\d+")


def is_process(target: str) -> bool:
    """Whether `target` names a process, and no file."""
    path = Path(target)
    if path.is_socket():
        return True
    return not path.exists() and (target.isdecimal() or bool(_ADDRESS.fullmatch(target)))


def fetch(target: str, folder: Path) -> tuple[list[Path], str]:
    """Files in `folder`, and a sentence on what is missing, or "". Raises ValueError."""
    try:
        if Path(target).is_socket():
            return _from_socket(Path(target), folder)
        if target.isdecimal():
            return _from_pid(int(target), folder)
        return _from_address(target, folder), ""
    except (control.ControlError, live.LiveError, published.PublishedError) as error:
        raise ValueError(str(error)) from error


def _from_address(target: str, folder: Path) -> list[Path]:
    return [
        _kept(folder / "profile.pb.gz", live.download(target, "/debug/pprof/lifetimes")),
        _kept(folder / "statistics.json", live.download(target, "/stats.json")),
    ]


def _from_socket(path: Path, folder: Path) -> tuple[list[Path], str]:
    document = control.stats(path)
    files = [_kept(folder / "statistics.json", json.dumps(document).encode())]
    if not document.get("stats", {}).get("samples"):
        return files, (
            f"{path}: the process has taken no samples, so there is no profile; the command "
            "`sampling on` begins"
        )
    profile = folder / "profile.pb.gz"
    try:
        control.ask(path, f"profile {profile}")
    except control.ControlError as error:
        return files, f"{error} (a profile can be fetched by the process's own user)"
    if not profile.exists():
        return files, f"{path}: the process sees other folders, so its profile cannot be fetched"
    return [profile, *files], ""


def _from_pid(pid: int, folder: Path) -> tuple[list[Path], str]:
    at = published.read(pid)
    if address := live.address_of(at):
        return _from_address(address, folder), ""
    missing = (
        "restart it with the option http:127.0.0.1:0 or control:/run/NAME.%p.ctl, and `llamalloc "
        "report PID` or `llamalloc record -o P.pb.gz --attach PID --for 5m` will show them"
    )
    if at.text("control"):
        try:
            return _from_socket(attach.find(pid).control, folder)
        except (control.ControlError, attach.AttachError) as error:
            missing = str(error)
    document = json.dumps(_document(at, pid)).encode()
    return [_kept(folder / "statistics.json", document)], (
        f"{pid}: no call sites and no pages of the heap, only counters; {missing}"
    )


def _document(at: published.Published, pid: int) -> dict[str, Any]:
    """What the counters give of the statistics document."""
    return {
        "version": 1,
        "pid": pid,
        "command": read_text(PROC / str(pid) / "comm"),
        "model": "not known",
        "seconds": _seconds_since_start(pid),
        "hugepages": "on" if at.number("pages.gets_huge") else "never",
        "segregation": at.gate,
        "stats": published.figures(at),
        "groups": [
            {"group": g["group"], "pages": g["pages"], "allocated": g["slots"],
             "free_slots": g["free_slots"]}
            for g in published.groups(at)
        ],
    }  # fmt: skip


def _seconds_since_start(pid: int) -> float:
    fields = stat_fields(pid)
    uptime = read_text(PROC / "uptime").split()
    if len(fields) < 20 or not uptime:
        return 0.0
    return float(uptime[0]) - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _kept(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path

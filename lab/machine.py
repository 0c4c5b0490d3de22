# SPDX-License-Identifier: Apache-2.0
"""The machine that figures were taken on."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path


def machine() -> dict[str, str]:
    """What the figures depend on: processor, kernel, huge pages, load, time."""
    cpu = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x.partition(":")[2].strip() for x in cpu if x.startswith("model name")), "?")
    thp = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return {
        "cpu": f"{os.cpu_count()} cores of {model}",
        "kernel": "Linux " + ".".join(platform.release().split(".")[:2]),
        "libc": "-".join(platform.libc_ver()),
        "transparent huge pages": thp.read_text().strip() if thp.exists() else "?",
        "load average at the start": f"{os.getloadavg()[0]:.2f}",
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }

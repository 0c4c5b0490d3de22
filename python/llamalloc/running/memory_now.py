# SPDX-License-Identifier: Apache-2.0
"""The memory of a running process in one sentence: charge, RSS, and its part on huge pages."""

from __future__ import annotations

from pathlib import Path

from llamalloc.formats.units import bytes_text
from llamalloc.running import charge, procmem
from llamalloc.running.procmem import PROC, Memory

_NAME = 15  # the kernel keeps so many bytes of a command's name


def sentence(pid: int, command: str, root: Path = charge.ROOT, proc: Path = PROC) -> str:
    """Empty if the process has ended, or if another one has its number now."""
    name = procmem.read_text(proc / str(pid) / "comm")
    if not name or name != Path(command).name[:_NAME]:
        return ""
    try:
        memory = procmem.parse_smaps_rollup((proc / str(pid) / "smaps_rollup").read_text())
    except OSError:
        return ""
    return f"Now: {_charged(pid, root, proc)}; {_resident(memory)}."


def _resident(memory: Memory) -> str:
    huge = memory.anon_huge_pages / memory.anonymous if memory.anonymous else 0.0
    return (
        f"RSS {bytes_text(memory.rss)}, of it {bytes_text(memory.anonymous)} anonymous memory, "
        f"{huge:.0%} of that on huge pages"
    )


def _charged(pid: int, root: Path, proc: Path) -> str:
    group = charge.of_process(pid, root, proc)
    if group is None:
        return "no memory control group of its own"
    try:
        found = group.read()
    except charge.ChargeError:
        return "its control group cannot be read"
    size = bytes_text(found.charge)
    return f"its control group is charged for {size} (all its processes, no page cache)"

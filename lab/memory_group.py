# SPDX-License-Identifier: Apache-2.0
"""What the kernel charges to a program: it runs in a memory control group of its own.

    with MemoryGroup.made("name") as group:      # None where no group can be made
        subprocess.Popen([*group.prefix({"LD_PRELOAD": ...}), program, ...])
        group.charge()

The charge is all memory that the kernel counts for the program, page tables and kernel stacks
included, less files in the page cache. Version 1 and 2 of control groups
(Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group, and the names of its files."""

    def __init__(self, folder: Path, usage: str, files: str) -> None:
        self.folder, self._usage, self._files = folder, usage, files

    def prefix(self, variables: dict[str, str]) -> list[str]:
        """Words before a command that run it in the group, with these variables set for it alone.

        A shell moves itself and becomes the command: Python cannot run code between fork and exec
        in a process that has threads.
        """
        enter = 'echo $$ > "$0" && exec env "$@"'
        words = [f"{name}={value}" for name, value in variables.items()]
        return ["sh", "-c", enter, str(self.folder / "cgroup.procs"), *words]

    def charge(self) -> int:
        """Bytes charged now, files left out."""
        rows = (line.split() for line in (self.folder / "memory.stat").read_text().splitlines())
        files = next((int(value) for name, value in rows if name == self._files), 0)
        return max(0, int((self.folder / self._usage).read_text()) - files)

    def remove(self) -> None:
        """When all its processes have ended; the kernel may need a moment."""
        for _ in range(50):
            with contextlib.suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.02)

    @classmethod
    @contextlib.contextmanager
    def made(cls, name: str, root: Path = ROOT) -> Iterator[MemoryGroup | None]:
        """A new group of this process's id; None where the system gives none."""
        group = cls._create(f"llamalloc-{name}-{os.getpid()}", root)
        try:
            yield group
        finally:
            if group:
                group.remove()

    @classmethod
    def _create(cls, name: str, root: Path) -> MemoryGroup | None:
        if (root / "memory" / "memory.usage_in_bytes").exists():
            found = cls(root / "memory" / name, "memory.usage_in_bytes", "cache")
        elif (root / "cgroup.controllers").exists():
            found = cls(root / name, "memory.current", "file")
        else:
            return None
        try:
            found.folder.mkdir()
        except OSError:
            return None
        if (found.folder / found._usage).exists():
            return found
        found.remove()  # version 2 without the memory controller
        return None

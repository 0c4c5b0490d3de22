# SPDX-License-Identifier: Apache-2.0
"""One load program on several allocators: its memory as it is charged, beside its payload.

start in a memory group -> (ready) -> its line of JSON -> settle -> memory -> end

A program of workloads/charge says `live`, the most payload that it had, and waits to be measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import allocators, peers
from lab.allocators import Allocator
from lab.launcher import clean_environment
from lab.places import LIBRARY
from lab.workloads.recipe import WorkloadError
from llamalloc.running import procmem
from llamalloc.running.memory_figures import Memory
from llamalloc.running.memory_group import MemoryGroup, prefix
from llamalloc.running.memory_watch import MemoryWatch

DEFAULT = "llamalloc,glibc,jemalloc,gperftools,mimalloc,tcmalloc"
MIB = 1 << 20


@dataclass(frozen=True)
class Used:
    """Memory of a program at one moment, in bytes; `charge` is RSS where it has no group."""

    rss: int
    charge: int
    anonymous: int
    huge: int


@dataclass
class Measured:
    """One run. `said`: the program's figures. `killed`: by the kernel, for memory. `memory`: over
    the whole run; None: the program did not say its line."""

    killed: bool = False
    said: dict[str, Any] = field(default_factory=dict)
    memory: Memory | None = None
    before: Used | None = None
    after: Used | None = None


@dataclass(frozen=True)
class How:
    """`limit`: bytes that the kernel allows. `settle`: seconds from its line to the reading."""

    limit: int | None = None
    settle: float = 0.0


def parser(command: str, about: str | None) -> argparse.ArgumentParser:
    """With the options that all commands have that compare allocators."""
    parser = parser_of_ours(command, about)
    names = ",".join(allocators.NAMES)
    parser.add_argument(
        "--allocators", default=DEFAULT, help=f"of {names}; short names, too; default: {DEFAULT}"
    )
    return parser


def parser_of_ours(command: str, about: str | None) -> argparse.ArgumentParser:
    """The same without a choice of allocators."""
    parser = argparse.ArgumentParser(
        prog=f"python -m lab.workloads.{command}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lib", type=Path, default=LIBRARY, help="our library (this build's)")
    parser.add_argument("--conf", default="", help="options of llamalloc: key:value,...")
    parser.add_argument("--runs", type=count, default=3, help="the median is shown (3)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    return parser


def count(text: str) -> int:
    """Of an option that is at least 1."""
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def only(options: argparse.Namespace, known: Mapping[str, object], what: str) -> list[str]:
    """What --only names, or all that is known. Raises WorkloadError for another name."""
    names = options.only.split(",") if options.only else list(known)
    if unknown := sorted(set(names) - set(known)):
        raise WorkloadError(f"no {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def present(options: argparse.Namespace, say: Callable[[str], None]) -> list[Allocator]:
    """The allocators that were asked for and are here; says which are left out, and once where no
    control group can be made."""
    names = allocators.chosen([n for n in options.allocators.split(",") if n])
    built = {allocators.BUILT[name] for name in names if name in allocators.BUILT}
    found, missing = allocators.present(names, options.lib, peers.ensure(built, say))
    for line in missing:
        say(line)
    return found


def environment(allocator: Allocator, conf: str) -> dict[str, str]:
    """What the program alone gets."""
    ours = {"LLAMALLOC_CONF": conf} if allocator.ours and conf else {}
    tunables = {"GLIBC_TUNABLES": allocator.tunables} if allocator.tunables else {}
    preload = "" if allocator.name == "glibc" else allocator.preload
    return ({"LD_PRELOAD": preload} if preload else {}) | ours | tunables


def measured(
    command: list[str], variables: dict[str, str], group: MemoryGroup | None, how: How
) -> Measured:
    """Runs it once. Raises WorkloadError: it ended otherwise than by the limit."""
    if group and how.limit:
        group.limit(how.limit)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [*prefix(group, variables), *command]
    with subprocess.Popen(words, env=clean_environment(), **pipes) as process:
        try:
            found = _followed(process, group, how)
        finally:
            process.stdin.close()
            status = process.wait()
    found.killed = bool(group) and group.kills() > 0
    if not found.killed and (status or not found.said):
        raise WorkloadError(f"{Path(command[0]).name} ended with {status}")
    _check_mapped(found, variables)
    return found


def _followed(process: subprocess.Popen, group: MemoryGroup | None, how: How) -> Measured:
    found = Measured()
    with MemoryWatch(process.pid, group) as watch:
        for line in process.stdout:
            said = json.loads(line)
            if said.pop("ready", False):
                found.before = used(process.pid, group)
                process.stdin.write("\n")
                process.stdin.flush()
                continue
            found.said = said
            time.sleep(how.settle)
            found.after = used(process.pid, group)
            found.said["mapped"] = procmem.mapped_files(process.pid)
            watch.stop()
            found.memory = watch.memory(said["live"])
            break
    return found


def _check_mapped(found: Measured, variables: dict[str, str]) -> None:
    files = found.said.pop("mapped", None)
    name = Path(variables.get("LD_PRELOAD", "")).name
    if files is not None and not any(name in Path(path).name for path in files):
        raise WorkloadError(f"{name} is not mapped into the program")


def used(pid: int, group: MemoryGroup | None) -> Used:
    """Of a program that lives."""
    memory = procmem.read_memory(pid)
    charge = group.read().charge if group else memory.rss
    return Used(memory.rss, charge, memory.anonymous, memory.anon_huge_pages)

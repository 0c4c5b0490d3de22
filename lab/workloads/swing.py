# SPDX-License-Identifier: Apache-2.0
"""The microbenchmark of ASPLOS 2020, section 9.6, on several allocators.

    python -m lab.workloads.swing [--only llamalloc,jemalloc] [-- arguments of swing]

A heap of 64-byte objects swings between 1 MB and 1 GB; one object in 10,000 stays, 5 MB in all.
After the last fall, and some seconds to tidy up, it counts the 2 MiB pages that still hold
survivors, and all 2 MiB regions with any memory behind them. It shows charge and RSS at that time,
on average and at the peak; the peak over the most payload. The learned row records a shorter run
and trains on it first. The paper: 22 MB on 2 MiB pages; allocators that know no lifetimes: 1 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from lab import memory_table
from lab.allocators import short_names
from lab.command import exit_status
from lab.launcher import LLAMALLOC, LauncherError, clean_environment, with_preload
from lab.workloads.recipe import WorkloadError, built
from llamalloc.running import control, residency
from llamalloc.running.memory_figures import Memory
from llamalloc.running.memory_group import WITHOUT, MemoryGroup, entered
from llamalloc.running.memory_watch import MemoryWatch

ROWS = (*short_names(), "plain", "learned")
SETTLE = 3.0  # seconds from the last free to the measurement


@dataclass
class Figures:
    """One allocator. Bytes, except `seconds`; `metadata` is 0 where it is not told apart."""

    allocator: str
    seconds: float
    survivors: int
    survivor_huge_pages: int
    resident_regions: int
    memory: Memory
    metadata: int = 0


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Options; what follows `--` goes to the program."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.workloads.swing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help=f"rows, of {','.join(ROWS)}; default: all")
    parser.add_argument("--model", type=Path, help="take this model; record and train none")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--conf", default="", help="options of llamalloc: key:value,...")
    parser.add_argument("load", nargs="*", help="arguments of the program; see swing --help")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Prints a table; 0, or 2 if something could not run."""
    options = arguments(argv)
    faults = (WorkloadError, LauncherError, control.ControlError)
    return exit_status("swing", lambda: _run(options), faults)


def _run(options: argparse.Namespace) -> int:
    rows = options.only.split(",") if options.only else list(ROWS)
    if unknown := sorted(set(rows) - set(ROWS)):
        raise WorkloadError(f"no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    program = built("swing")
    with tempfile.TemporaryDirectory(prefix="llamalloc-") as folder:
        figures = [_row(name, program, options, Path(folder)) for name in rows]
    Console(width=None if sys.stdout.isatty() else 160).print(table(figures))
    if not all(f.memory.charge for f in figures):
        print(WITHOUT)
    if options.json:
        options.json.write_text(json.dumps([asdict(f) for f in figures], indent=1) + "\n")
    return 0


def _row(name: str, program: Path, options: argparse.Namespace, folder: Path) -> Figures:
    print(f"swing: {name}", file=sys.stderr, flush=True)
    socket = folder / "control"
    ours = name in ("plain", "learned")
    environment = clean_environment()
    if ours:
        places = "" if name == "plain" else "segregate:always"  # not only once the gate is open
        conf = ",".join(filter(None, (places, options.conf)))
        prefix = [*LLAMALLOC, "run", "--control", str(socket), "--conf", conf]
        if name == "learned":
            model = options.model or _model(program, options.load, folder)
            prefix += ["--model", str(model)]
        prefix.append("--")
    else:
        prefix, environment = [], with_preload(environment, name)
    command = [*prefix, str(program), *options.load, "--wait"]
    with (
        MemoryGroup.made("swing") as group,
        _running(*entered(group, command, environment)) as process,
        MemoryWatch(process.pid, group) as watch,
    ):
        said = _said(process)
        time.sleep(SETTLE)
        watch.stop()
        held = residency.read(process.pid)
        metadata = control.stats(socket)["stats"]["metadata"] if ours else 0
        memory = watch.memory(said["live"])
    return Figures(
        name,
        said["seconds"],
        said["survivors"] * 64,
        said["survivor_huge_pages"],
        held.regions,
        memory,
        metadata,
    )


def table(figures: list[Figures]) -> Table:
    """A line an allocator: where the survivors are, and what memory it took."""
    view = Table(box=box.SIMPLE, pad_edge=False)
    view.add_column("allocator", no_wrap=True)
    own = ("survivors MiB", "on 2 MiB pages MiB", "memory on 2 MiB regions MiB")
    for head in own:
        view.add_column(memory_table.wrapped(head), justify="right")
    memory_table.add_columns(view)
    for head in ("own tables MiB", "seconds"):
        view.add_column(memory_table.wrapped(head), justify="right")
    for f in figures:
        parts = (f.survivors, f.survivor_huge_pages << 21, f.resident_regions << 21)
        view.add_row(
            f.allocator,
            *(memory_table.mib(part) for part in parts),
            *memory_table.cells([f.memory]),
            *(memory_table.mib(f.metadata), f"{f.seconds:.1f}"),
        )
    return view


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    """The process, to the end of the block."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait()


def _said(process: subprocess.Popen) -> dict[str, Any]:
    """Its line of JSON; it then waits to be measured."""
    line = process.stdout.readline()
    if not line:
        raise WorkloadError(f"swing ended with {process.wait()} before it was done")
    return json.loads(line)


def _model(program: Path, load: list[str], folder: Path) -> Path:
    """Learned from a run with a fifth of the survivors."""
    profile, model = folder / "swing.pb.gz", folder / "swing.model"
    short = [str(program), "--survivors", "1024", *load]
    record = [*LLAMALLOC, "record", "--interval", "16KiB", "-o", str(profile), "--", *short]
    train = [*LLAMALLOC, "train", "-o", str(model), str(profile)]
    for command in (record, train):
        done = subprocess.run(
            command, env=clean_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise WorkloadError(f"{command[3]} failed: {done.stderr.strip()}")
    return model


if __name__ == "__main__":
    raise SystemExit(main())

# SPDX-License-Identifier: Apache-2.0
"""The microbenchmark of ASPLOS 2020, section 9.6, on several allocators.

    python -m lab.workloads.swing [--only llamalloc,jemalloc] [-- arguments of swing]

A heap of 64-byte objects swings between 1 MB and 1 GB; one object in 10,000 stays, 5 MB in all.
After the last fall, and some seconds to tidy up, it counts the 2 MiB pages that still hold
survivors, and all 2 MiB regions with any memory behind them. The learned row records a shorter run
and trains on it first. The paper: 22 MB on 2 MiB pages; allocators that know no lifetimes: 1 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.allocators import short_names
from lab.command import exit_status
from lab.launcher import LLAMALLOC, LauncherError, clean_environment, with_preload
from lab.workloads.recipe import WorkloadError, built
from llamalloc.running import control, procmem, residency
from llamalloc.running.memory_group import WITHOUT, MemoryGroup, entered
from llamalloc.running.memory_watch import peak_charge

ROWS = (*short_names(), "plain", "learned")
SETTLE = 3.0  # seconds from the last free to the measurement
_MIB = 1 << 20


@dataclass
class Figures:
    """One allocator. Bytes, except `seconds`; `metadata` is 0 where it is not told apart, charges
    are None without a memory control group."""

    allocator: str
    seconds: float
    survivors: int
    survivor_huge_pages: int
    resident_regions: int
    rss: int
    metadata: int = 0
    charge: int | None = None
    peak_charge: int | None = None


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
    print(_HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="llamalloc-") as folder:
        figures = [_row(name, program, options, Path(folder)) for name in rows]
    if any(f.charge is None for f in figures):
        print(WITHOUT)
    if options.json:
        options.json.write_text(json.dumps([asdict(f) for f in figures], indent=1) + "\n")
    return 0


def _row(name: str, program: Path, options: argparse.Namespace, folder: Path) -> Figures:
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
        _running(*entered(group, command, environment)) as (process, said),
    ):
        time.sleep(SETTLE)
        charged = group.read() if group else None
        memory, held = procmem.read_memory(process.pid), residency.read(process.pid)
        metadata = control.stats(socket)["stats"]["metadata"] if ours else 0
        peak = peak_charge(group, 0, charged.page_cache) if group and charged else None
    figures = Figures(
        name,
        said["seconds"],
        said["survivors"] * 64,
        said["survivor_huge_pages"],
        held.regions,
        memory.rss,
        metadata,
        charged.charge if charged else None,
        peak,
    )
    print(_line(figures), flush=True)
    return figures


_HEAD = (
    "allocator   survivors  on 2 MiB pages  memory on 2 MiB regions       RSS    charge      peak"
    "  own tables  seconds"
)


def _line(f: Figures) -> str:
    return (
        f"{f.allocator:<11}{f.survivors / _MIB:5.1f} MiB{f.survivor_huge_pages * 2:12d} MiB"
        f"{f.resident_regions * 2:21d} MiB{f.rss / _MIB:6.0f} MiB"
        f"{_mib(f.charge)}{_mib(f.peak_charge)}"
        f"{f.metadata / _MIB:8.1f} MiB{f.seconds:9.1f}"
    )


def _mib(value: int | None) -> str:
    return f"{'-':>6} MiB" if value is None else f"{value / _MIB:6.0f} MiB"


@contextmanager
def _running(command: list[str], environment: dict[str, str]) -> Iterator[tuple]:
    """(process, its line of JSON) while it waits at its end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        try:
            line = process.stdout.readline()
            if not line:
                raise WorkloadError(f"swing ended with {process.wait()} before it was done")
            yield process, json.loads(line)
        finally:
            process.stdin.close()
            process.wait()


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

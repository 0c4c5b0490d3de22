# SPDX-License-Identifier: Apache-2.0
"""Traces of every allocation (contracts/trace_format.md): made, summed up, cut and exported.

The C++ tool `llamalloc-trace`, installed with the library, reads the events; here are its calls.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from llamalloc.formats import file_kinds, path_pattern, regular_file
from llamalloc.formats.units import bytes_text, seconds_text
from llamalloc.running import children, launch

TRACE_LIBRARY = "libllamalloc_trace.so"
TOOL = "llamalloc-trace"
LONGEST_PATH = 1000  # TraceOutput::kLongestPath
KINDS = ("allocate", "resize", "free")

# What `llamalloc-trace dump` writes: src/trace/event.h.
EVENT = np.dtype(
    {
        "names": ["time_ns", "object", "size", "stack", "thread", "kind", "alignment_log2"],
        "formats": ["<u8", "<u8", "<u8", "<u4", "<u4", "u1", "u1"],
        "offsets": [0, 8, 16, 24, 28, 32, 33],
        "itemsize": 40,
    }
)
_BATCH = 1 << 20  # events


class TraceError(ValueError):
    """A trace cannot be read or written. One message: cause and cure."""


@dataclass(frozen=True)
class Recording:
    """A trace on the disk, as `finish` leaves it."""

    path: Path
    summary: dict[str, Any]

    @property
    def events(self) -> int:
        return sum(self.summary[key] for key in ("allocations", "resizes", "frees"))

    def text(self) -> str:
        """One line for the terminal."""
        facts = self.summary
        each = facts["file_bytes"] / max(self.events, 1)
        threads = f"{facts['threads']:,} thread{'' if facts['threads'] == 1 else 's'}"
        cut = "; killed or cut off: the last events may be missing"
        return (
            f"{self.path}: {self.events:,} events of {threads} in "
            f"{seconds_text(facts['duration_ns'] / 1e9)}, {bytes_text(facts['file_bytes'])} "
            f"({each:.1f} bytes an event); at most {bytes_text(facts['peak_bytes'])} live"
            f"{'' if facts['ended_in_order'] else cut}"
        )


def environment(path: Path, pid: int, options: Mapping[str, str]) -> dict[str, str]:
    """For the process `pid`, which records into `path`; what it starts, into PATH.PID."""
    env = launch.environment(launch.find_library(TRACE_LIBRARY), options)
    return env | {
        "LLAMALLOC_TRACE": path_pattern.literal(str(path)),
        "LLAMALLOC_TRACE_PID": str(pid),
    }


def of_children(path: Path) -> list[Path]:
    """What processes other than the first recorded beside `path`: PATH.PID, oldest first."""
    return children.recorded(path, file_kinds.is_trace)


def finish(path: Path, *, pack: bool = True) -> Recording:
    """Packs a recorded trace in place (about a quarter of the size, and faster to read)."""
    if pack:
        _run("pack", path, "-o", path)
    return Recording(path, info(path, top=0))


def info(path: Path, top: int = 10) -> dict[str, Any]:
    """The summary of src/trace_file/trace_summary.cc. Raises TraceError."""
    return json.loads(_run("info", path, "--top", top))


def cut(
    path: Path,
    output: Path,
    *,
    events: int | None = None,
    start: float | None = None,
    end: float | None = None,
) -> None:
    """A part of a trace, `start` to `end` seconds, at most `events` long. Raises TraceError."""
    words: list[object] = ["cut", path, "-o", output]
    for option, value in (("--events", events), ("--from", start), ("--to", end)):
        if value is not None:
            words += [option, value]
    _run(*words)


def export(path: Path, output: Path) -> int:
    """Writes the events as Parquet, and the stacks beside them; how many events. Raises TraceError.

    Columns: contracts/trace_format.md, "Parquet".
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    try:
        str(output).encode()
    except UnicodeEncodeError:
        raise TraceError(f"{output}: the name is not UTF-8; name another file") from None
    schema = {
        "time_ns": pl.UInt64, "object": pl.UInt64, "size": pl.UInt64, "stack": pl.UInt32,
        "thread": pl.UInt32, "kind": pl.Enum(KINDS), "alignment": pl.UInt64,
    }  # fmt: skip
    total = 0

    def frames(*_: object) -> Iterator[pl.DataFrame]:
        nonlocal total
        for batch in batches(path):
            total += len(batch)
            yield _frame(batch, schema)

    partial = regular_file.partial
    try:
        with partial(stacks_path(output)) as beside, partial(output) as table:
            stacks(path).write_parquet(beside)
            register_io_source(frames, schema=schema).sink_parquet(table)
    except pl.exceptions.ComputeError as error:
        if "TraceError: " in str(error):
            raise TraceError(str(error).split("TraceError: ")[-1].strip()) from None
        raise TraceError(f"{output}: cannot be written ({str(error).splitlines()[0]})") from None
    except OSError as error:
        raise TraceError(f"{output}: {error.strerror or error}") from error
    return total


def stacks_path(output: Path) -> Path:
    """Where `export` puts the stacks of OUT.parquet: OUT.stacks.parquet."""
    return output.with_suffix(".stacks" + output.suffix)


def stacks(path: Path) -> Any:
    """A polars frame: stack, frames (names, the allocation site's first)."""
    import polars as pl

    text = _run("tables", path).encode(errors="surrogateescape")
    lines = text.decode(errors="replace").splitlines()
    pairs = [line.partition("\t") for line in lines]
    return pl.DataFrame(
        {
            "stack": [int(number) for number, _, _ in pairs],
            "frames": [names.split(";") if names else [] for _, _, names in pairs],
        },
        schema={"stack": pl.UInt32, "frames": pl.List(pl.String)},
    )


def batches(path: Path, events: int = _BATCH) -> Iterator[np.ndarray]:
    """The events as arrays of EVENT, in order, at most `events` each. Raises TraceError."""
    command = [str(find_tool()), "dump", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        while data := _read_up_to(process.stdout, events * EVENT.itemsize):
            yield np.frombuffer(data, EVENT)
        complaint = process.stderr.read().decode(errors="replace")
    if process.returncode != 0:
        raise TraceError(_message(complaint, process.returncode))


def _read_up_to(stream: IO[bytes], size: int) -> bytes:
    return stream.read(size)  # a buffered reader: less only at the end


def _frame(batch: np.ndarray, schema: Mapping[str, Any]) -> Any:
    import polars as pl

    columns = {name: np.ascontiguousarray(batch[name]) for name in schema if name in EVENT.names}
    columns["kind"] = pl.Series(KINDS, dtype=schema["kind"]).gather(batch["kind"].astype(np.uint32))
    aligned = np.left_shift(np.uint64(1), batch["alignment_log2"].astype(np.uint64))
    columns["alignment"] = np.where(batch["kind"] == KINDS.index("free"), np.uint64(0), aligned)
    return pl.DataFrame(columns).select(list(schema))


def find_tool() -> Path:
    """`llamalloc-trace`, of the library's build or installation. Raises LaunchError."""
    return launch.find_tool(TOOL)


def _run(*words: object) -> str:
    command = [str(find_tool()), *map(str, words)]
    done = subprocess.run(command, capture_output=True, check=False, **launch.TOOL_TEXT)
    if done.returncode != 0:
        raise TraceError(_message(done.stderr, done.returncode))
    return done.stdout


def _message(complaint: str, code: int) -> str:
    text = complaint.strip().removeprefix(f"{TOOL}: ")
    return text or f"{TOOL} ended with {code} and said nothing"

# SPDX-License-Identifier: Apache-2.0
"""Runs simulations: a trace, many policies and predictors, two processes at a time.

The C++ tool `llamalloc-simulate`, installed with the library, does the work. It prints JSON, as
`llamalloc simulate --json` does for every run in a list:

    policy, predictor       as asked for; error, seed: of injected errors
    events_per_second       of processor time, reading the trace included
    known_contexts          contexts that the predictor had an entry for
    trace                   file, ended_in_order (false: killed or cut off), events, objects, frees,
                            resizes, placements, contexts, threads, allocated_bytes, duration_ns,
                            peak_time_ns, peak_live, drops
    totals                  ratios to live bytes, of what is resident, or `small`, in 4 KiB pages:
        average, average_small          over time
        after_drops, after_drops_small  over the load's drops; 0: there was none
        worst_drop                      of the worst drop
        peak                            highest footprint in 2 MiB pages by highest live bytes
        coverage                        share of what is resident that is on huge pages
        peak_footprint                  bytes in 2 MiB pages, without metadata
        huge_pages_acquired             from the system, counting every time
    releases                what the policy llamalloc gave back; bytes where nothing else is said:
        realized_fragmentation, average_fragmentation   least and mean free memory of huge pages
                             over 5 minutes; means over the samples
        pages_broken, bytes_broken, pages_mended, huge_pages_refetched
        skipped, skipped_right, skipped_wrong           not broken since demand was expected; of it
                             what the window proved right and wrong
        broken_by_rate       what the release rate alone would have broken
        hold_empty_ns, hold_mappings_ns                 how long empty memory is held, at the end
    classes                 a row a lifetime class: name, placements, outlived, bytes
    gate                    of a process that learns, when its gate changed: time_ns, placing, late,
                            verdict, says (a sentence)
    lifetimes_log2_ns       placements by floor(log2(lifetime)); never_freed: the others
    moments                 in the order of time; kind `sample` (evenly spaced), `peak`, `drop` or
                            `end`; bytes:
        live                 as asked for
        huge, small          footprint in 2 MiB and in 4 KiB pages, mappings of their own and
                             metadata included
        resident, covered    what a control group would be charged for: of broken pages only
                             what they have left; of that on huge pages
        rounding, free_slots, free_blocks, empty_pages, thread_caches, metadata
                             the losses: live and these are exactly `huge`
        all but `sample` also: objects, outlivers (objects past the bound of their class), pinned
        (bytes free on pages that hold outlivers only), pinned_pages, map_pages and
        map              a string a huge page, a letter a block: `.` free, `a` + class of the
                         longest-lived object in it, upper case with an outliver; 512 pages at most

A placement is an allocation, or a resize to another size bucket.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from llamalloc.formats import file_kinds, learned_state
from llamalloc.running import ending, launch

TOOL = "llamalloc-simulate"
REPLAY = "llamalloc-replay"
LLAMALLOC = "llamalloc"
LEARNED = (LLAMALLOC, "paper-k2", "paper-k4")
BLIND = ("slabs-fullest", "slabs-lowest", "first-fit", "best-fit")
POLICIES = LEARNED + BLIND
LOSSES = ("rounding", "free_slots", "free_blocks", "empty_pages", "thread_caches", "metadata")
AGREED = 0.02  # how far simulation and replay may be apart
_JOBS = 2

Result = dict[str, Any]


class SimulationError(RuntimeError):
    """A simulation cannot be run, or failed. One message: cause and cure."""


@dataclass(frozen=True)
class Setting:
    """What is the same for all runs of one call."""

    trace: str
    learn: str | None = None
    error: float = 0.0
    error_by_object: bool = False
    seed: int = 1
    samples: int = 500
    pace: str | None = None  # a file: when things happened in a replay
    keep: str | None = None  # a state file for what was learned
    conf: str | None = None  # options of llamalloc, as in LLAMALLOC_CONF

    def of_run(self, policy: str, predictor: str) -> Setting:
        """What concerns this run: only llamalloc has options, and only what learns is kept."""
        conf = self.conf if policy == LLAMALLOC else None
        return replace(self, conf=conf, keep=self.keep if learns(predictor) else None)

    def arguments(self) -> list[str]:
        """For the tool."""
        words = [self.trace, "--samples", str(self.samples), "--seed", str(self.seed)]
        if self.learn:
            words += ["--learn", self.learn]
        if self.error:
            words += ["--error", str(self.error)]
        if self.pace:
            words += ["--pace", self.pace]
        if self.keep:
            words += ["--keep", self.keep]
        if self.conf:
            words += ["--conf", self.conf]
        return [*words, "--error-objects"] if self.error_by_object else words


@dataclass(frozen=True)
class Agreement:
    """The simulation of a trace beside its replay under the real library, without a model."""

    simulated: list[int]  # resident bytes at the samples
    real: list[int]
    seconds: list[float] = field(default_factory=list)
    late: float = 0.0  # seconds that the replay was behind, at worst

    @property
    def average(self) -> float:
        """Simulated by real, both averaged over time."""
        return sum(self.simulated) / max(sum(self.real), 1)

    @property
    def peak(self) -> float:
        """Highest by highest."""
        return max(self.simulated) / max(*self.real, 1)

    @property
    def holds(self) -> bool:
        """Whether both are close enough to 1."""
        return max(abs(self.average - 1), abs(self.peak - 1)) <= AGREED


def find_tool(name: str = TOOL) -> Path:
    """The tool, of the library's build or installation. Raises SimulationError."""
    try:
        return launch.find_tool(name)
    except launch.LaunchError as error:
        raise SimulationError(str(error)) from error


def parse_policies(text: str) -> list[str]:
    """`all`, or names with commas between. Raises SimulationError for an unknown one."""
    if text == "all":
        return list(POLICIES)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in POLICIES:
            known = ", ".join(POLICIES)
            raise SimulationError(f"no policy {name!r}; there are {known}, or all of them: all")
    if not names:
        raise SimulationError("--policy names nothing; try --policy all")
    return list(dict.fromkeys(names))


def plan(policies: Iterable[str], predictors: Iterable[str]) -> list[tuple[str, str]]:
    """(policy, predictor) of every run; what does not look at lifetimes runs once, with `none`.

    Only `llamalloc` runs with predictors that learn.
    """
    predictors = list(dict.fromkeys(predictors))
    return [
        (policy, predictor)
        for policy in policies
        for predictor in (["none"] if policy in BLIND else predictors)
        if policy == LLAMALLOC or not learns(predictor)
    ]


def learns(predictor: str) -> bool:
    """Whether the simulated process learns while the trace runs."""
    return predictor.split(":")[0] in ("online", "state")


def check(setting: Setting, runs: list[tuple[str, str]]) -> None:
    """Raises LaunchError for what would fail only after other runs have been simulated."""
    if not runs:
        raise launch.LaunchError("online and state:FILE are only for the policy llamalloc")
    _check_keep(setting.keep, [predictor for _, predictor in runs if learns(predictor)])
    if setting.conf is not None and all(policy != LLAMALLOC for policy, _ in runs):
        raise launch.LaunchError("--conf: only the policy llamalloc has options")
    for _, predictor in runs:
        name, _, file = predictor.partition(":")
        if name in ("model", "state") and file and not Path(file).is_file():
            raise launch.LaunchError(f"{file}: no such file; --predictor {name}:FILE reads it")
    tool = find_tool()
    for policy, predictor in runs:
        words = replace(setting.of_run(policy, predictor), trace="").arguments()
        _check_words([str(tool), *words, "--policy", policy, "--predictor", predictor])


def _check_keep(keep: str | None, learning: list[str]) -> None:
    if keep is None:
        return
    if not learning:
        raise launch.LaunchError("--keep needs the predictor online or state:FILE")
    if len(learning) > 1:
        both = " and ".join(learning)
        raise launch.LaunchError(
            f"--keep: {both} would write the same file; simulate one at a time"
        )
    path = Path(keep)
    file_kinds.check_folder(path)
    try:
        foreign = path.exists() and path.stat().st_size and not learned_state.is_state_file(path)
    except OSError as error:
        raise launch.LaunchError(f"{keep}: {error.strerror}; name another file") from None
    if foreign:
        raise launch.LaunchError(f"{keep}: not a state file; it is left alone; name another file")


def _check_words(command: list[str]) -> None:
    """Wrong arguments end the tool with 2, before it finds that there is no trace."""
    done = subprocess.run(command, capture_output=True, check=False, **launch.TOOL_TEXT)
    if done.returncode == 2:
        raise launch.LaunchError(done.stderr.strip().removeprefix(f"{TOOL}: "))


def run_all(
    setting: Setting,
    runs: list[tuple[str, str]],
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    heard: Callable[[float], None] = lambda runs: None,
) -> list[Result]:
    """The result of every run, in order; progress(done, total, run) after each, and heard(runs)
    now and then: how many are done, parts of them included.

    Raises SimulationError with the tool's own message if one fails. Then, and after a signal that
    ends us, no run is left.
    """
    tool = find_tool()
    tools = _Tools()
    done = 0
    shares = dict.fromkeys(runs, 0.0)

    def one(run: tuple[str, str]) -> Result:
        nonlocal done
        policy, predictor = run
        words = ["--policy", policy, "--predictor", predictor, "--progress"]

        def share(part: float) -> None:
            shares[run] = part
            heard(sum(shares.values()))

        command = [str(tool), *setting.of_run(*run).arguments(), *words]
        result = _json_of(command, heard=share, tools=tools)
        done += 1
        share(1.0)
        progress(done, len(runs), f"{policy}, {predictor}")
        return result

    with ThreadPoolExecutor(_JOBS) as pool:
        try:
            futures = [pool.submit(one, run) for run in runs]
            for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            tools.end()
            raise


class _Tools:
    """The tools that run, so that all of them can be ended. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._ended = False

    @contextlib.contextmanager
    def started(self, *words: Any, **how: Any) -> Iterator[subprocess.Popen[str]]:
        """Inside the block it runs; if the block fails, it is killed."""
        process = None
        try:
            with ending.held(), self._lock:
                if self._ended:
                    raise SimulationError("ended by a signal, or since another run failed")
                process = subprocess.Popen(*words, **how)
                self._running.add(process)
            yield process
            process.wait()
        except BaseException:
            if process is not None:
                ending.kill(process)
            raise
        finally:
            with self._lock:
                self._running.discard(process)
            if process is not None and process.stderr is not None:
                process.stderr.close()

    def end(self) -> None:
        """Kills what runs; what is started later fails."""
        with self._lock:
            self._ended = True
            for process in self._running:
                process.kill()  # its thread waits for it


def compare_with_replay(setting: Setting, samples: int = 100, speed: float = 1) -> Agreement:
    """Replays the trace at its pace under the library, and simulates that replay without a model.

    Takes as long as the trace, by `speed`. The simulation runs on the clock that the replay kept,
    and does the background work when the library did, so a busy machine changes both alike. Where
    the replay gets no huge pages, its resident memory stands beside what the simulation counts in
    pages of 4 KiB. Raises SimulationError.
    """
    real = replay(setting.trace, samples, speed)
    simulated = simulate_paced(real, Setting(setting.trace, samples=samples))
    moments = [m for m in simulated["moments"] if m["kind"] == "sample"]
    as_backed = "resident" if real["huge_pages"] else "small"
    return Agreement(
        [m[as_backed] for m in moments],
        [s["resident"] for s in real["samples"]],
        [m["time_ns"] / 1e9 for m in moments],
        late=real["late_ns"] / 1e9,
    )


def replay(trace: str, samples: int = 100, speed: float = 1) -> Result:
    """What llamalloc-replay prints, under the library without a model."""
    library = launch.find_library()
    words = [str(find_tool(REPLAY)), trace, "--samples", str(samples), "--speed", str(speed)]
    base = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "LLAMALLOC_CONF")}
    environment = launch.environment(library, {}, base)
    return _json_of(words, environment)


def simulate_paced(real: Result, setting: Setting) -> Result:
    """The same without a model in the simulator, which does everything when that replay did it."""
    visits = [number for visit in real["worker"] for number in visit]
    numbers = [len(real["clock"]), *real["clock"], *real["ticks"], *visits]
    with tempfile.NamedTemporaryFile("w", suffix=".pace") as file:
        file.write("\n".join(map(str, numbers)))
        file.flush()
        return run_all(replace(setting, pace=file.name), [("llamalloc", "none")])[0]


def _json_of(
    command: list[str],
    environment: dict[str, str] | None = None,
    heard: Callable[[float], None] = lambda share: None,
    tools: _Tools | None = None,
) -> Result:
    said = ""
    with (
        tempfile.TemporaryFile("w+", **launch.TOOL_TEXT) as output,
        (tools or _Tools()).started(
            command, stdout=output, stderr=subprocess.PIPE, env=environment, **launch.TOOL_TEXT
        ) as process,
    ):
        for line in process.stderr or ():
            if line.startswith("progress "):
                heard(float(line.split()[1]))
            elif line.startswith("llamalloc"):
                said = line.strip()
        code = process.wait()
        output.seek(0)
        result = output.read()
    if code != 0:
        name = Path(command[0]).name
        raise SimulationError(said.removeprefix(f"{name}: ") or f"{name} failed: exit code {code}")
    return json.loads(result)

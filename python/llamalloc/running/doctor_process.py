# SPDX-License-Identifier: Apache-2.0
"""A process that runs: whether it is under llamalloc, with what options, and what holds for it.

Read from outside (running/published.py); the process takes no part in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from llamalloc.formats import contracts
from llamalloc.formats.units import bytes_text, seconds_text
from llamalloc.running import charge, doctor_preload, hugepages, published
from llamalloc.running.doctor import cgroup_limit
from llamalloc.running.doctor_finding import NOTE, OK, PROBLEM, Finding
from llamalloc.running.procmem import PROC, parse_smaps_rollup, read_text
from llamalloc.running.published import Published

# The words of a choice, by its kind (src/base/options.cc).
_CHOICES = {
    "reaction": ("abort", "report"),
    "segregation": ("auto", "always", "never"),
    "forecast": ("auto", "peak", "trend", "none"),
}
_OWN_LINES = ("http", "control", "learn", "model", "sample_interval")


def examine(
    pid: int, proc: Path = PROC, read: Callable[[int], Published] = published.read
) -> list[Finding]:
    """All findings. Raises PublishedError where there is no such process, or no permission."""
    name = f"{pid} ({read_text(proc / str(pid) / 'comm', '?')})"
    try:
        at = read(pid)
    except published.NotUnderUsError:
        head = Finding(PROBLEM, name, "does not run under llamalloc")
        return [head, *doctor_preload.examine(pid, proc)]
    folder = proc / str(pid)
    library = next((p for p in _mapped(folder) if "llamalloc" in Path(p).name), "linked in")
    return [
        Finding(OK, name, f"runs under llamalloc {at.text('version')}", library),
        _options(at), _huge_pages(at, folder), *_memory(at, pid, proc), _sampling(at),
        _addresses(at), _learning(at), *_limits(at, folder),
    ]  # fmt: skip


def _mapped(folder: Path) -> list[str]:
    columns = (line.split(maxsplit=5) for line in read_text(folder / "maps").splitlines())
    return [c[5] for c in columns if len(c) == 6]


def _options(at: Published) -> Finding:
    changed = [
        f"{option.name}:{_text(option, value)}"
        for option in contracts.options()
        if (value := at.option(option.name)) is not None
        and value != option.default
        and option.name not in _OWN_LINES
    ]
    return Finding(OK, "options", " ".join(changed) or "the others are at their defaults")


def _text(option: contracts.Option, value: int | str) -> str:
    if option.kind in _CHOICES:
        return _CHOICES[option.kind][int(value)]
    if option.kind == "flag":
        return "on" if value else "off"
    if option.kind == "bytes":
        return bytes_text(int(value)).replace(" ", "")
    return seconds_text(int(value) / 1e9).replace(" ", "") if option.kind == "nanos" else str(value)


def _huge_pages(at: Published, folder: Path) -> Finding:
    subject, rollup = "huge pages", read_text(folder / "smaps_rollup")
    memory = parse_smaps_rollup(rollup)
    share = f"; {memory.coverage:.0%} of its memory is on them" if rollup else ""
    setting = hugepages.setting()
    if at.option("hugepages") == 0:
        return Finding(NOTE, subject, f"hugepages:off{share}", "the heap does not ask for them",
                       "remove the option hugepages:off")  # fmt: skip
    if "THP_enabled:\t0" in read_text(folder / "status"):
        cure = "start it from a shell or service that has not disabled them (systemd can)"
        return Finding(PROBLEM, subject, f"disabled for it by prctl{share}", "", cure)
    if setting == "never":
        cure = f"echo madvise > {hugepages.SETTING}   (as root)"
        return Finding(PROBLEM, subject, f"never{share}", "the heap uses small pages", cure)
    return Finding(OK, subject, f"{setting}{share}")


def _memory(at: Published, pid: int, proc: Path) -> Iterator[Finding]:
    live = published.figures(at)["allocated"]
    group = charge.of_process(pid, proc=proc)
    words = f"{bytes_text(live)} live"
    if memory := read_text(proc / str(pid) / "smaps_rollup"):
        words += f", {bytes_text(parse_smaps_rollup(memory).rss)} resident"
    if group is not None:
        try:
            words += f", {bytes_text(group.read().charge)} charged to its control group"
        except charge.ChargeError:
            group = None
    yield Finding(OK, "memory", words)
    limit = cgroup_limit(own=read_text(proc / str(pid) / "cgroup"))
    own = [f"{n}:{bytes_text(int(v)).replace(' ', '')}" for n in ("soft_limit", "hard_limit")
           if (v := at.option(n))]  # fmt: skip
    if limit is None and not own:
        yield Finding(OK, "memory limit", "none")
        return
    found = ", ".join([*([bytes_text(limit)] if limit else []), *own])
    if limit and at.option("follow_limits") == 0:
        cure = "remove the option follow_limits:off"
        meaning = "the library does not return memory when the limit is near"
        yield Finding(NOTE, "memory limit", found, meaning, cure)
    else:
        yield Finding(OK, "memory limit", found, "memory is returned when it is near")


def _sampling(at: Published) -> Finding:
    subject = "sampling"
    if not at.number("profiler.on"):
        cure = "start it with control:PATH or http:ADDRESS, which sample at nearly no cost"
        return Finding(NOTE, subject, "off", "no call sites, no heap profile", cure)
    found = f"one allocation in {bytes_text(at.number('profiler.interval'))}"
    dropped = at.number("stat.samples_dropped")
    if dropped:
        meaning = f"{dropped:,} samples were dropped: too many call sites, or no memory"
        return Finding(NOTE, subject, found, meaning, "a larger sample_interval")
    if at.number("profiler.complete_since") > at.number("started"):
        return Finding(
            OK, subject, found, "began after the start: older objects are not in profiles"
        )
    return Finding(OK, subject, found, "since the start: heap profiles are complete")


def _addresses(at: Published) -> Finding:
    open_ones = [f"{n}:{at.text(n)}" for n in ("control", "http") if at.text(n)]
    wanted = [n for n in ("control", "http") if at.option(n) and not at.text(n)]
    if wanted:
        meaning = (
            "another process has the address (as the parent of a family has), or stderr says why"
        )
        cure = f"with %p in the path each process has one of its own: {wanted[0]}:" + (
            "/run/NAME.%p.ctl" if wanted[0] == "control" else "unix:/run/NAME.%p.http"
        )
        found = " ".join([*open_ones, *(f"{n}: not open" for n in wanted)])
        return Finding(NOTE, "addresses", found, meaning, cure)
    meaning = "" if open_ones else "llamalloc top works without one"
    return Finding(OK, "addresses", " ".join(open_ones) or "none", meaning)


def _learning(at: Published) -> Finding:
    model, learn = at.text("model_state"), at.text("learn")
    placed = "placed by lifetime" if at.number("placement_on") else "not placed by lifetime"
    if model.startswith("refused"):
        return Finding(PROBLEM, "model", model, "objects are not placed by it", "see the message")
    if model == "loaded":
        return Finding(OK, "model", "loaded", f"objects are {placed}")
    if learn in ("", "off"):
        return Finding(OK, "learning", "off", "to learn while it runs: learn:FOLDER")
    return Finding(OK, "learning", f"learn:{learn}", f"objects are {placed}: {at.gate}")


def _limits(at: Published, folder: Path) -> Iterator[Finding]:
    if at.option("worker") == 0:
        meaning = "free memory goes back on request only; nothing is learned, no profile is flushed"
        yield Finding(NOTE, "background thread", "worker:off", meaning, "remove the option")
    status = read_text(folder / "status")
    if "Seccomp:\t2" in status:
        yield Finding(
            NOTE, "seccomp", "a filter of system calls is installed",
            "caches of idle threads are kept, and profile, statistics and what is learned may not "
            "be written: all need system calls that the filter may forbid",
            "if it allows membarrier and prctl: sleepers_despite_seccomp:on",
        )  # fmt: skip

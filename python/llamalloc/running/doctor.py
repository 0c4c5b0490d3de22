# SPDX-License-Identifier: Apache-2.0
"""What on this machine, in this process and in a program helps or hinders the allocator."""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

from llamalloc.formats import elf
from llamalloc.running import doctor_preload, hugepages, launch, learn_place
from llamalloc.running.doctor_finding import NOTE, OK, PROBLEM, Finding
from llamalloc.running.procmem import read_text

_THP = Path("/sys/kernel/mm/transparent_hugepage")
_CONF = "LLAMALLOC_CONF"
_MALLOCS = ("jemalloc", "tcmalloc", "mimalloc", "snmalloc", "rpmalloc", "Hoard", "mesh")
_TOOLS = ("jax", "optax", "polars", "safetensors", "google.protobuf", "matplotlib", "rich")
_UNLIMITED = 1 << 60


def examine(program: str | None = None) -> list[Finding]:
    """All findings, for the machine and, where given, for a program."""
    findings = [*_huge_pages(), *_limits(), *_library(), _python(), configuration()]
    findings.append(learning(program))
    return findings + (list(_program(program)) if program else [])


def _huge_pages() -> Iterator[Finding]:
    yield _enabled(hugepages.setting(), hugepages.process_switch())
    defrag = hugepages.chosen(read_text(_THP / "defrag"))
    if defrag != "unknown":
        yield _defrag(defrag)
    if none := read_text(_THP / "khugepaged" / "max_ptes_none"):
        yield _khugepaged(int(none))


def _enabled(setting: str, switch: int = 0) -> Finding:
    """What holds for a program started from here: it inherits the switch (PR_GET_THP_DISABLE)."""
    subject = "huge pages"
    setting = hugepages.in_force(setting, switch)
    if setting == "disabled":
        cure = "start from a shell or service that has not disabled them (systemd can)"
        meaning = "prctl disabled them for this process and its children; the heap uses small pages"
        return Finding(PROBLEM, subject, setting, meaning, cure)
    if setting == "always":
        return Finding(OK, subject, setting, "every large mapping gets them")
    if setting == "madvise":
        return Finding(OK, subject, setting, "the heap asks for them and gets them")
    cure = f"echo madvise > {hugepages.SETTING}   (as root)"
    return Finding(PROBLEM, subject, setting, "the heap will use small pages and be slower", cure)


def _defrag(setting: str) -> Finding:
    subject = "huge page defrag"
    if setting == "never":
        cure = f"echo madvise > {_THP}/defrag   (as root)"
        return Finding(NOTE, subject, setting, "huge pages only as long as free ones exist", cure)
    return Finding(OK, subject, setting, "the kernel makes room for huge pages on request")


def _khugepaged(none: int) -> Finding:
    subject, found = "khugepaged max_ptes_none", str(none)
    if none == 0:
        return Finding(OK, subject, found, "memory that was returned stays returned")
    meaning = "the kernel may refill returned parts of huge pages; we ask for small pages there"
    return Finding(OK, subject, found, meaning)


def _limits() -> Iterator[Finding]:
    yield _memory_limit(cgroup_limit())
    yield _overcommit(read_text("/proc/sys/vm/overcommit_memory", "?"))
    count = read_text("/proc/sys/vm/max_map_count", "?")
    few = count.isdecimal() and int(count) < 65530
    cure = "sysctl vm.max_map_count=65530" if few else ""
    yield Finding(
        NOTE if few else OK, "max_map_count", count, "maximum number of mappings of a process", cure
    )
    yield _address_space(resource.getrlimit(resource.RLIMIT_AS)[0])


def cgroup_limit(root: Path = Path("/sys/fs/cgroup"), own: str | None = None) -> int | None:
    """The memory limit of our control group or of one above it, in bytes; None: no limit.

    Version 2 (memory.max) and version 1 (memory.limit_in_bytes). `own`: text of /proc/self/cgroup.
    """
    rows = (read_text("/proc/self/cgroup") if own is None else own).splitlines()
    limits: list[int] = []
    for controllers, path in (row.split(":", 2)[1:] for row in rows if row.count(":") >= 2):
        if controllers == "":
            limits += _limits_above(root, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_above(root / "memory", path, "memory.limit_in_bytes")
    return min((limit for limit in limits if limit < _UNLIMITED), default=None)


def _limits_above(root: Path, path: str, name: str) -> list[int]:
    folder = root / path.lstrip("/")
    texts = [read_text(p / name) for p in (folder, *folder.parents) if p.is_relative_to(root)]
    return [int(text) for text in texts if text.isdecimal()]


def _memory_limit(limit: int | None) -> Finding:
    if limit is None:
        return Finding(OK, "memory limit", "none", "no control group limits this process")
    meaning = "above it the kernel kills the program; returned memory does not count"
    return Finding(OK, "memory limit", f"{limit >> 20:,} MiB", meaning)


def _overcommit(mode: str) -> Finding:
    if mode == "2":
        cure = "sysctl vm.overcommit_memory=0, or leave room in overcommit_ratio"
        meaning = "strict: the kernel may refuse to reserve heap address space"
        return Finding(NOTE, "overcommit", mode, meaning, cure)
    return Finding(OK, "overcommit", mode, "address space may be reserved freely")


def _address_space(limit: int) -> Finding:
    subject = "address space (ulimit -v)"
    if limit == resource.RLIM_INFINITY:
        return Finding(OK, subject, "unlimited")
    meaning = "reserved address space counts too, so the program reaches the limit early"
    return Finding(NOTE, subject, f"{limit >> 20:,} MiB", meaning, "ulimit -v unlimited")


def _library() -> Iterator[Finding]:
    try:
        library = launch.find_library()
    except launch.LaunchError as error:
        cause, _, cure = str(error).partition(": ")
        yield Finding(PROBLEM, "library", "missing", cause, cure)
        return
    yield Finding(OK, "library", str(library))
    yield from doctor_preload.library_faults(library)
    yield _loads(library)


def _loads(library: Path) -> Finding:
    """Really preloads the library; the loader complains on stderr where it cannot."""
    env = {"LD_PRELOAD": str(library)}
    done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, check=False)
    said = done.stderr.strip()
    if done.returncode == 0 and not said:
        return Finding(OK, "library loads", "yes", "preloaded under /bin/true")
    found = said.splitlines()[0] if said else f"exit code {done.returncode}"
    cure = "build it on this machine: make build"
    return Finding(PROBLEM, "library loads", found, "the loader cannot use this library", cure)


def configuration() -> Finding:
    """LLAMALLOC_CONF of this process, and the file that it names."""
    subject, text = _CONF, os.environ.get(_CONF, "")
    if not text:
        return Finding(OK, subject, "not set", "options may also come from a file: conf_file:PATH")
    cure = "see docs/options.md"
    try:
        options, known = _options()
    except launch.LaunchError as error:
        return Finding(PROBLEM, subject, str(error), "wrong options are ignored", cure)
    if said := _refused():
        meaning = f"what is wrong is ignored: {len(said)} of {len(options | known)} options"
        return Finding(PROBLEM, subject, said[0], meaning, cure)
    named = options.get("conf_file")
    of_file = f", and {len(known)} of {named}" if named else ""
    return Finding(OK, subject, f"{len(options)} options{of_file}", "all options are known")


def _refused() -> list[str]:
    """What the library says of the values, one line each. Files and sockets are not opened."""
    try:
        library = launch.find_library()
    except launch.LaunchError:
        return []  # _library() tells
    given = os.environ[_CONF]
    closed = (f"{name}:" for name in ("profile", "stats", "control", "http", "model", "learn"))
    env = {"LD_PRELOAD": str(library), _CONF: ",".join((given, *closed))}
    done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, check=False)
    lines = (line.removeprefix("llamalloc: ") for line in done.stderr.splitlines())
    told = (line.removesuffix("; ignored") for line in lines if line.endswith("; ignored"))
    return [line.removeprefix(f"{_CONF}: ") for line in told]


def _options() -> tuple[dict[str, str], dict[str, str]]:
    """The options of LLAMALLOC_CONF, and those of the file that it names. Raises LaunchError."""
    options = launch.parse_conf(os.environ.get(_CONF, ""))
    named = options.get("conf_file")
    return options, {} if named is None else launch.parse_conf_file(Path(named))


def learning(program: str | None = None) -> Finding:
    """Whether LLAMALLOC_CONF lets programs learn while they run, and whether that can be kept."""
    try:
        options, of_file = _options()
    except launch.LaunchError:
        options, of_file = {}, {}  # configuration() tells
    place = (of_file | options).get("learn", "")
    if not place or learn_place.flag(place) is False:
        meaning = "to let a program learn while it runs: llamalloc run --learn FOLDER -- PROGRAM"
        return Finding(OK, "learning", "off", meaning)
    try:
        name = launch.file_name(launch.find_program(program)) if program else ""
        place_used = learn_place.checked(place, name)
    except launch.LaunchError as error:
        cause, _, cure = str(error).partition("; ")
        return Finding(PROBLEM, "learning", cause, "the program would run, but keep nothing", cure)
    if learn_place.flag(place):
        return Finding(OK, "learning", place, "each run begins anew; learn:FOLDER keeps it")
    if note := learn_place.note(place_used, name):
        cause, _, cure = note.partition("; ")
        return Finding(NOTE, "learning", cause, "another program's file is left alone", cure)
    return Finding(OK, "learning", place, "what is learned can be kept there")


def _python() -> Finding:
    missing = [name for name in _TOOLS if not _importable(name)]
    if missing:
        cure = f"pip install {' '.join(missing)}"
        return Finding(
            NOTE,
            "Python packages",
            f"missing: {', '.join(missing)}",
            "some commands will not work",
            cure,
        )
    return Finding(OK, "Python packages", "complete", "record, train and report will work")


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _program(name: str) -> Iterator[Finding]:
    """Findings for one program. Raises LaunchError where there is no such program."""
    path = launch.find_program(name)
    obstacle = launch.obstacle(path)
    if obstacle:
        yield Finding(PROBLEM, name, obstacle.cause, "llamalloc would not be used", obstacle.cure)
        return
    file = launch.loaded_file(path)
    facts = elf.read(file)
    kind = str(file) if file == path else f"{path}, a script of {file}"
    yield Finding(OK, name, kind, "dynamically linked, no raised privileges: can be preloaded")
    yield _other_malloc(name, facts.needed)
    yield _names(name, file, facts)
    yield _build_id(name, facts)
    if b"disable-thp" in file.read_bytes():
        meaning = "the program turns huge pages off for itself by default"
        yield Finding(NOTE, f"{name}: huge pages", "disable-thp", meaning, "add: --disable-thp no")
    if launch.has_capabilities(file):
        meaning = "works for root; for others the loader ignores LD_PRELOAD"
        yield Finding(NOTE, f"{name}: rights", "file capabilities", meaning)


def _other_malloc(name: str, needed: tuple[str, ...]) -> Finding:
    subject = f"{name}: malloc"
    others = [n for n in needed if any(m.lower() in n.lower() for m in _MALLOCS)]
    if not others:
        return Finding(OK, subject, "glibc's", "the library replaces it")
    meaning = "llamalloc is used instead; statistics that the program reads from it will be 0"
    return Finding(OK, subject, ", ".join(others), meaning)


def _names(name: str, file: Path, facts: elf.Elf) -> Finding:
    subject = f"{name}: symbols"
    if facts.has_symtab:
        return Finding(OK, subject, "present", "profiles and models use function names")
    meaning = "profiles show addresses for its internal functions; a model fits only this build"
    cure = (
        f"use an unstripped build of {file.name} to keep models valid across versions, or "
        f"llamalloc run --learn, which needs no names"
    )
    return Finding(NOTE, subject, "stripped", meaning, cure)


def _build_id(name: str, facts: elf.Elf) -> Finding:
    subject = f"{name}: build-id"
    if facts.build_id:
        meaning = "what is learned holds for this build, and is known again in the next run"
        return Finding(OK, subject, facts.build_id.hex(), meaning)
    meaning = "builds that look alike share what is learned, though their code differs"
    return Finding(NOTE, subject, "none", meaning, "link with -Wl,--build-id")

# SPDX-License-Identifier: Apache-2.0
"""The traps, the allocators, and what happens when one meets the other.

A trap is a program of this folder with a time limit. Its result is ok, fails (it says why), crash
(a signal), or hang (the time limit): never an exception, so that a table can hold it.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from lab.allocators import debian_libraries  # noqa: E402
from llamalloc.running.memory_group import MemoryGroup, entered  # noqa: E402

PROGRAMS = ROOT / "build/release/traps"
OURS = ROOT / "build/release/libllamalloc.so"
MODEL = ROOT / "contracts/golden/model_v3.safetensors"
PEERS = {**debian_libraries(), "llamalloc": OURS}
SAMPLED = "profile:/dev/null,sample_interval:4096"
PREDICTED = f"segregate:always,model:{MODEL},predict_recheck:64KiB"


@dataclass(frozen=True)
class Trap:
    """`command`: program and arguments; a word that names a built plugin becomes its path."""

    name: str
    what: str
    command: str
    seconds: float = 30
    environment: dict[str, str] = field(default_factory=dict)
    before: str = ""  # a plugin that is preloaded before the allocator
    after: str = ""  # … after it
    ours: str = "ok"  # what llamalloc does; docs/compatibility.md explains all but ok
    slow: bool = False  # only for the table, not in the test run
    grouped: bool = False  # in a control group of its own where one can be made (charge.h)


def _seccomp(call: str, since: str = "the start") -> Trap:
    what = f"a filter refuses {call} from {since}"
    return Trap(f"seccomp: {call}", what, f"seccomp_refuse {call}", 60)


def _idle(sizes: str, order: str, threads: str) -> Trap:
    return Trap(
        f"idle: {sizes}, {order.replace('_', ' ')}, {threads}",
        f"160 MiB of {sizes} objects freed {order.replace('_', ' ')}; threads then: {threads}",
        f"idle_release {sizes} {order} {threads} 15",
        60,
        grouped=True,
    )


def _idle_seccomp(when: str, what: str) -> Trap:
    short = {"LLAMALLOC_CONF": "sleeper_delay:10ms"}
    return Trap(f"idle: seccomp, {when}", what, f"seccomp_sleep {when}", environment=short)


TLS_KIB = (16, 108, 112, 116, 120, 124, 500, 1024, 3072, 7168)  # of 8 MiB of stack
TLS_CONF = {
    "profile": "profile:/dev/null,sample_interval:4096",
    "model": f"segregate:always,model:{MODEL}",
    "control": f"control:{tempfile.gettempdir()}/llamalloc-{os.getpid()}-",
}


def _static_tls(kib: int, conf: str = "", library: bool = False) -> Trap:
    """48 MiB are freed out of order by threads that then sleep; they come back."""
    program = "idle_release" if library else f"static_tls_{kib}"
    settings = TLS_CONF.get(conf, "") + (str(kib) if conf == "control" else "")
    tables = " 4" if conf == "profile" else ""  # MiB for 12,288 samples
    return Trap(
        f"static TLS: {kib} KiB{' of a library' * library}{', ' * bool(conf)}{conf}",
        "48 MiB are freed, the threads sleep; the memory comes back",
        f"{program} small shuffled sleep 15 48{tables}",
        60,
        {"LLAMALLOC_CONF": settings} if settings else {},
        after=f"tls_{kib}_plugin" if library else "",
        grouped=True,
    )


FORK_HANDLERS = ("lock", "join", "threads", "allocate", "many")
FORK_WAYS = {
    "linked": ("fork_order_linked", {}),
    "by dlsym": ("fork_order_linked", {}),
    "preloaded before": ("fork_order", {"before": "fork_order_plugin"}),
    "preloaded after": ("fork_order", {"after": "fork_order_plugin"}),
    "dlopen": ("fork_order fork_order_plugin now", {}),
    "DEEPBIND": ("fork_order fork_order_plugin deepbind", {}),
}


def fork_order(way: str, handlers: str) -> Trap:
    command, preloads = FORK_WAYS[way]
    what = "60 handlers of another library lock, join and start threads, allocate"
    environment = {"FORK_ORDER": f"{handlers} dlsym" if way == "by dlsym" else handlers}
    return Trap(f"fork handlers: {way}", what, command, 60, environment, **preloads)


SHARED_MEMORY = {
    "clone": "clone(CLONE_VM)",
    "vfork_clone": "clone(CLONE_VFORK)",
    "vfork": "vfork, then exec",
    "spawn": "posix_spawn",
}
EAGER = {"LLAMALLOC_CONF": "sleeper_delay:1us"}  # idle caches are taken at once


def _shared_memory(way: str) -> Trap:
    what = "the child shares our memory and allocates while we wait"
    return Trap(SHARED_MEMORY[way], what, f"shared_memory {way} 6", 60, EAGER)


TRAPS = (
    Trap("fork in threads", "children allocate and start threads", "fork_threads", 60),
    Trap(
        "early fork handlers",
        "registered before every constructor; they allocate",
        "fork_handlers",
        60,
    ),
    Trap(
        "… that start threads", "the handlers start and join threads", "fork_handlers threads", 60
    ),
    *(fork_order(way, " ".join(FORK_HANDLERS)) for way in FORK_WAYS),
    Trap("fork and streams", "during fflush(NULL) and getline", "fork_streams", 60),
    Trap("fork in a handler", "a signal interrupts malloc and free", "fork_in_handler", 60),
    Trap(
        "fork in a fresh child",
        "a handler forks while the child of a fork begins",
        "fork_in_child",
        60,
        environment={"LLAMALLOC_CONF": "worker:off"},
    ),
    Trap("signals during fork", "their handler allocates, in parent and child", "fork_signals", 40),
    Trap(
        "exit in a handler",
        "a signal interrupts malloc and free",
        "exit_in_handler",
        60,
        environment={"LLAMALLOC_CONF": "stats:/dev/null"},
    ),
    Trap("vfork, posix_spawn", "four threads call them", "spawn"),
    *(_shared_memory(way) for way in SHARED_MEMORY),
    Trap("vfork that frees", "the child frees 160 MiB; they come back", "vfork_frees"),
    Trap("mq_notify, POSIX locks", "they last while threads sleep", "descriptors idle 5"),
    Trap(
        "closed files",
        "no copy keeps a pipe, lock or socket alive",
        "descriptors close 5",
        environment=EAGER,
    ),
    Trap("key destructors", "3,000 threads allocate while they end", "key_destructors", 60),
    Trap("short threads", "10,000 threads, RSS flat", "short_threads", 60),
    Trap(
        "vanished threads",
        "they end by the system call exit, their stacks are unmapped",
        "raw_exit",
        environment={"LLAMALLOC_CONF": "sleeper_delay:10ms"},
    ),
    Trap("signal handlers", "a handler allocates", "signal_storm outside", 20),
    Trap("… inside pthread_create", "… interrupts it", "handler_in_create", 60, slow=True),
    Trap("… inside malloc", "… interrupts malloc and free", "signal_storm inside", 20, slow=True),
    Trap("main thread ends", "by pthread_exit; the last thread ends the process", "main_ends", 10),
    Trap(
        "dlopen that waits",
        "a constructor waits for a thread that frees 20 MiB",
        "dlopen_joins joins_plugin",
        10,
    ),
    Trap(
        "…, libc's object",
        "… that frees an object of libc's malloc",
        "dlopen_joins joins_foreign_plugin",
        10,
    ),
    Trap(
        "…, new fails",
        "… whose operator new fails",
        "dlopen_joins joins_new_plugin",
        10,
        after="new_fails_plugin",
    ),
    Trap("cancelled threads", "while they print malloc's statistics", "cancelled", 20),
    Trap("… in malloc_trim", "then the process forks", "trim_sparse cancelled", 20),
    Trap(
        "… in exit, sampled",
        "the exit code stays",
        "cancelled_exit",
        20,
        environment={"LLAMALLOC_CONF": SAMPLED},
    ),
    Trap("dlclose with TLS", "a library with 20 kB of TLS, 300 times", "dlclose_tls tls_plugin"),
    Trap(
        "LD_AUDIT",
        "an audit library with its own malloc",
        "audited tls_plugin",
        environment={"LD_AUDIT": str(PROGRAMS / "audit.so")},
    ),
    Trap("DEEPBIND: own", "a plugin allocates and frees", "deepbind deepbind_plugin own"),
    Trap("DEEPBIND: take", "the program frees its objects", "deepbind deepbind_plugin take"),
    Trap("DEEPBIND: give", "it frees the program's objects", "deepbind deepbind_plugin give"),
    Trap(
        "DEEPBIND: give, lazy", "free bound at its first call", "deepbind deepbind_plugin give lazy"
    ),
    Trap("DEEPBIND: give, dlmopen", "opened by dlmopen", "deepbind deepbind_plugin give base"),
    Trap("DEEPBIND: give, runpath", "found by RUNPATH", "deepbind deepbind_plugin give runpath"),
    Trap("libc by handle: take", "libc's malloc by dlsym", "deepbind deepbind_plugin take handle"),
    _seccomp("madvise"),
    _seccomp("munmap"),
    _seccomp("mincore"),
    _seccomp("rseq"),
    _seccomp("mremap"),
    _seccomp("mprotect", "main on"),
    *(
        Trap(
            f"seccomp: {error}",
            "for files of /proc and /sys, from the start",
            f"seccomp_files {error}",
        )
        for error in ("EPERM", "EACCES")
    ),
    Trap("address space of 1 GiB", "RLIMIT_AS from the start", "address_limit as", 60),
    Trap("real time", "on a processor of its own", "real_time"),
    Trap("a buffer grows", "in 1 GiB of address space", "grow_limit as"),
    Trap("a buffer grows", "where mremap is refused", "grow_limit refused"),
    Trap("a buffer cannot grow", "as under overcommit 2, again and again", "grow_limit data"),
    Trap("overcommit 2", "imitated by RLIMIT_DATA", "address_limit data", 60),
    Trap("out of memory", "objects of every kind, again and again", "out_of_memory", 60),
    Trap("realloc to less", "where no memory is left", "shrink"),
    Trap("new fails", "in a C++ plugin of a C program", "new_fails new_fails_plugin"),
    Trap("…, plugin preloaded", "the same", "new_fails new_fails_plugin", after="new_fails_plugin"),
    Trap("max_map_count", "no mapping is left, then a few", "map_count", 60),
    Trap("before constructors", "from .preinit_array and the first constructor", "early"),
    Trap("IFUNC resolver", "before thread-local variables are set up", "ifunc", ours="crash"),
    Trap("after exit handlers", "threads still run; exit, quick_exit, _exit", "late", 60),
    Trap(
        "fibers, sigaltstack",
        "samples on stacks that lie in the heap",
        "fibers",
        environment={"LLAMALLOC_CONF": SAMPLED},
    ),
    Trap("fibers below a stack", "stacks between inaccessible pages", "fibers_below"),
    Trap("…, sampled", "the same", "fibers_below", environment={"LLAMALLOC_CONF": SAMPLED}),
    Trap("…, predicted", "the same", "fibers_below", environment={"LLAMALLOC_CONF": PREDICTED}),
    Trap("threads that only free", "three threads free 2 GiB of others", "only_free", 60),
    Trap("address of getpid", "no PIE: getpid seems to lie in the program", "canonical"),
    Trap("malloc_trim", "returns 160 MiB at once", "trim"),
    Trap("… on a small stack", "16 KiB, and pages with holes", "trim_sparse stack"),
    _idle("mixed", "in_order", "end"),
    _idle("small", "in_order", "end"),
    _idle("large", "in_order", "end"),
    _idle("small", "shuffled", "end"),
    _idle("small", "in_order", "sleep"),
    _idle("mixed", "in_order", "sleep"),
    _idle("large", "in_order", "sleep"),
    _idle("small", "shuffled", "sleep"),
    _idle("mixed", "shuffled", "sleep"),
    _idle("mixed", "shuffled", "main"),
    Trap(
        "idle: runs alone",
        "160 MiB in objects of 400 KiB freed by the only thread, which has no others",
        "idle_runs",
        60,
        grouped=True,
    ),
    _idle_seccomp("late", "openat and membarrier end the process, after a burst"),
    _idle_seccomp("early", "membarrier is refused from the start, then a burst"),
    _idle("small", "shuffled", "spin"),
    *(_static_tls(kib) for kib in TLS_KIB),
    *(_static_tls(kib, conf) for kib in (112, 500, 3072, 7168) for conf in TLS_CONF),
    *(_static_tls(kib, library=True) for kib in (120, 1024, 7168)),
)


@dataclass(frozen=True)
class Result:
    kind: str  # ok, fails, crash, hang
    text: str  # the program's figures, or what it died of
    seconds: float
    stderr: str = ""


def _arguments(trap: Trap) -> list[str]:
    words = trap.command.split()
    plugins = {p.stem: str(p) for p in PROGRAMS.glob("*.so")}
    return [str(PROGRAMS / words[0]), *(plugins.get(w, w) for w in words[1:])]


def _environment(trap: Trap, library: Path | None) -> dict[str, str]:
    dropped = {"LD_PRELOAD", "LD_AUDIT", "LLAMALLOC_CONF"}
    kept = {k: v for k, v in os.environ.items() if k not in dropped}
    before, after = (
        PROGRAMS / f"{name}.so" if name else None for name in (trap.before, trap.after)
    )
    preloads = [str(path) for path in (before, library, after) if path is not None]
    preload = {"LD_PRELOAD": ":".join(preloads)} if preloads else {}
    return {**kept, **preload, **trap.environment}


def _end(process: subprocess.Popen, seconds: float) -> tuple[str, str, bool]:
    """Output, errors, and whether it hung; its children end with it."""
    try:
        out, err = process.communicate(timeout=seconds)
        return out, err, False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return out, err, True


def spring(trap: Trap, library: Path | None) -> Result:
    """Runs the trap under the library (None: glibc's malloc)."""
    if not trap.grouped:
        return _sprung(trap, _arguments(trap), _environment(trap, library))
    with MemoryGroup.made("trap") as group:
        named = {"MEMORY_GROUP": str(group.folder)} if group else {}
        words = entered(group, _arguments(trap), _environment(trap, library) | named)
        return _sprung(trap, *words)


def _sprung(trap: Trap, command: list[str], environment: dict[str, str]) -> Result:
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    out, err, hung = _end(process, trap.seconds)
    seconds = time.monotonic() - began
    figures = out.strip().splitlines()[-1] if out.strip() else ""
    complaint = err.strip().splitlines()[-1] if err.strip() else figures
    if hung:
        return Result("hang", f"hangs (stopped after {trap.seconds:.0f} s)", seconds, err)
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        kind = "hang" if name == "SIGALRM" else "crash"
        return Result(kind, f"{name} {complaint}".strip(), seconds, err)
    if process.returncode != 0:
        return Result("fails", complaint, seconds, err)
    return Result("ok", figures, seconds, err)

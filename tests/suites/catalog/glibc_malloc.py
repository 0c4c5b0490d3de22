# SPDX-License-Identifier: Apache-2.0
"""The C library's own tests of malloc, compiled from Debian's source of the installed version.

Tests and their support library come from the downloaded tree and are linked with the system's C
library; of the tree's headers those are used that the system has none of.
"""

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import debian
from harness.suite import Command, Difference, Suite, SuiteError

# Not built, and why.
LEFT_OUT = {
    "tst-interpose-static-nothread": "static: nothing can be preloaded",
    "tst-interpose-static-thread": "static: nothing can be preloaded",
    "tst-compathooks-off": "links with malloc hooks, which glibc 2.34 took away",
    "tst-compathooks-on": "links with malloc hooks, which glibc 2.34 took away",
    "tst-mallocstate": "links with malloc_set_state, which glibc 2.25 took away",
    "tst-malloc-check": "tests MALLOC_CHECK_ in libc_malloc_debug, itself an allocator to preload",
    "tst-malloc-usable": "the same",
    "tst-malloc-usable-tunables": "the same",
    "tst-mtrace": "tests mtrace in libc_malloc_debug",
}
HELPERS = {
    "tst-interpose-nothread": "tst-interpose-aux-nothread",
    "tst-interpose-thread": "tst-interpose-aux-thread",
}
# What the tree's own build defines: no declarations for the C library's inside, a time limit that
# the environment stretches, and paths that no test of malloc looks at.
PATHS = "SRCDIR OBJDIR OBJDIR_ELF_LDSO INSTDIR LIBDIR BINDIR SBINDIR SLIBDIR ROOTSBINDIR"
DEFINED = ["-Dlibc_hidden_proto(x)=", "-Dlibc_hidden_def(x)=", "-DTIMEOUTFACTOR=1"]
DEFINED += [f'-D{name}_PATH=""' for name in [*PATHS.split(), "COMPLOCALEDIR"]]
HEADERS = ("", "include", "support", "sysdeps/generic")
FLAGS = ["-std=gnu11", "-O2", "-g", "-w", "-pthread", "-DTEST_NO_MALLOPT", "-D_GNU_SOURCE"]
FLAGS += ["-include", "limits.h"]  # which the tree's own wraps


def source_of(folder: Path) -> Path:
    return folder / f"glibc-{debian.version('libc6')}"


def tests_in(tree: Path) -> list[str]:
    """Names of the tests of the malloc folder that are built."""
    names = [path.stem for path in (tree / "malloc").glob("tst-*.c")]
    parts = ("tst-interpose-aux", "tst-interpose-skeleton")
    return ["mallocbug", *sorted(n for n in names if n not in LEFT_OUT and not n.startswith(parts))]


def compile_words(tree: Path) -> list[str]:
    """The compiler, with the tree's headers behind the system's."""
    headers = [word for folder in HEADERS for word in ("-idirafter", str(tree / folder))]
    return ["gcc", *FLAGS, *DEFINED, *headers]


def support_library(tree: Path, build: Path) -> Path:
    """libsupport.a of all that compiles outside the C library; a link says what else is needed."""
    objects = build / "support"
    objects.mkdir(exist_ok=True)

    def compiled(source: Path) -> Path | None:
        target = objects / f"{source.stem}.o"
        words = [*compile_words(tree), "-c", str(source), "-o", str(target)]
        return (
            None if subprocess.run(words, capture_output=True, check=False).returncode else target
        )

    sources = [p for p in (tree / "support").glob("*.c") if not p.name.startswith("tst-")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = [str(path) for path in pool.map(compiled, sources) if path]
    library = build / "libsupport.a"
    subprocess.run(["ar", "rcs", str(library), *made], check=True)
    return library


def link(tree: Path, build: Path, test: str) -> str:
    """Compiles one test; the compiler's first words if it cannot."""
    helper = [str(tree / f"malloc/{HELPERS[test]}.c")] if test in HELPERS else []
    words = [*compile_words(tree), str(tree / f"malloc/{test}.c"), *helper, "-o", str(build / test)]
    words += [str(build / "libsupport.a"), "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"{test}: {done.stderr[:400]}" if done.returncode else ""


def prepare(folder: Path) -> None:
    tree = debian.fetch_source("glibc", debian.version("libc6"), folder)
    build, done = folder / "build", folder / "build/complete"
    if done.exists():
        return
    build.mkdir(exist_ok=True)
    support_library(tree, build)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [f for f in pool.map(lambda t: link(tree, build, t), tests_in(tree)) if f]
    if faults:
        raise SuiteError("glibc's tests do not compile here:\n" + "\n".join(faults[:3]))
    done.touch()


def commands(folder: Path) -> Sequence[Command]:
    return [
        Command(test, [folder / "build" / test], seconds=300, environment={"TIMEOUTFACTOR": "3"})
        for test in tests_in(source_of(folder))
    ]


DIFFERENCES = (
    Difference(
        ["tst-dynarray-fail"],
        "leaves 2 MiB of address space, less than one huge page with its alignment",
    ),
    Difference(
        ["tst-malloc-backtrace"],
        "overwrites the header in front of a chunk and wants an abort; here is no header, and the"
        " store itself may fault",
    ),
    Difference(
        ["tst-malloc-stats-cancellation"],
        "looks for glibc's own words in what malloc_stats prints (that the thread is cancelled"
        " after it, not in it: tests/traps, cancelled threads)",
    ),
    Difference(
        ["tst-malloc-thread-fail"],
        "looks at errno after posix_memalign, which returns its error and leaves errno alone",
    ),
    Difference(
        ["tst-mallocfork2"],
        "may hang where a handler forks that interrupted fork itself: glibc then waits for its own"
        " lock, unless the process has one thread, and a worker of ours may be the second"
        " (never with worker:off)",
    ),
    Difference(["tst-safe-linking"], "corrupts the links of glibc's own lists of free chunks"),
    Difference(
        ["tst-tcfree2"],
        "wants a double free found in the call; here it is found when the thread gives its cached"
        " slots back (docs/misuse.md), in the call under hardened",
    ),
)

SUITE = Suite(
    what="the tests of its malloc folder",
    version=lambda: debian.version("libc6"),
    packages=("gcc", "libc6-dev", "dpkg-dev"),
    prepare=prepare,
    commands=commands,
    differences=DIFFERENCES,
    parallel=2,
)

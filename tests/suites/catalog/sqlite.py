# SPDX-License-Identifier: Apache-2.0
"""SQLite: tests of statements with every allocation one of malloc's, and those that make each
single allocation of a statement fail in turn, from Debian's source of the installed version.

Compiled to ask malloc_usable_size for the size of each object, and to count by it.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from harness import build, debian
from harness.suite import FAILED, PASSED, Command, Outcomes, Output, Suite

USABLE_SIZE = "CFLAGS=-O2 -DHAVE_MALLOC_H=1 -DHAVE_MALLOC_USABLE_SIZE=1"
TCL = "--with-tcl=/usr/lib/x86_64-linux-gnu/tcl8.6"
# A permutation of the tests ("full": as they are), and patterns of the file names taken from it.
GROUPS = {
    "quick": [
        "nolookaside",
        "select%",
        "insert%",
        "index%",
        "join%",
        "func%",
        "trigger%",
        "where%",
    ],
    "memory": ["full", "malloc%", "mem%"],
}
JOBS = 2
SECONDS = 1800
LINE = re.compile(r"^(\S+\.test)\.\.\. (Ok|FAILED)", re.MULTILINE)
NO_LEAK = "all allocations freed"


def version() -> str:
    return debian.version("libsqlite3-0")


def prepare(folder: Path) -> None:
    source = debian.fetch_source("sqlite3", version(), folder)
    configure = ["env", USABLE_SIZE, source / "configure", TCL, "--enable-all"]
    build.once(folder / "build", "suite", [configure, build.make("testfixture")])


def parse(output: Output) -> Outcomes:
    """One test a file; the runner adds up what each of its processes had not freed."""
    found = {name: PASSED if word == "Ok" else FAILED for name, word in LINE.findall(output.text)}
    if found:
        group = "quick" if next(iter(found)).startswith("nolookaside") else "memory"
        found[f"{group}: leaks"] = PASSED if NO_LEAK in output.text else FAILED
    return found


def commands(folder: Path) -> Sequence[Command]:
    fixture = folder / "build/testfixture"
    source = debian.source_tree("sqlite3", version(), folder)
    run = [fixture, source / "test/testrunner.tcl", "--jobs", str(JOBS)]
    return [Command(name, [*run, *words], parse, seconds=SECONDS) for name, words in GROUPS.items()]


SUITE = Suite(
    what="statements without lookaside; allocations that fail",
    version=version,
    packages=("libsqlite3-0", "gcc", "make", "tcl", "tcl-dev", "zlib1g-dev", "dpkg-dev"),
    prepare=prepare,
    commands=commands,
    probes=(("../build/testfixture",),),  # its script is an empty stdin
)

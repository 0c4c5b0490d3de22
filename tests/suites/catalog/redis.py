# SPDX-License-Identifier: Apache-2.0
"""Redis: all of its own test suite but what runs for hours, on servers built from Debian's source.

Built with MALLOC=libc, because Debian's redis-server brings jemalloc: without a preloaded library
the malloc of these servers is glibc's. Tests of jemalloc's defragmentation are skipped by that.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import build, debian
from harness.suite import FAILED, PASSED, SKIPPED, Command, Outcomes, Output, Suite

OUTCOMES = {"ok": PASSED, "err": FAILED, "exception": FAILED, "ignore": SKIPPED, "skip": SKIPPED}
WORST = (SKIPPED, PASSED, FAILED)  # of tests with one name, the outcome furthest to the right
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LINE = re.compile(r"^\[(\w+)\]: (.*?)(?: \(\d+ ms\)| in tests/\S+)?$", re.MULTILINE)
# The tests of PSYNC2 draw at random who replicates whom, and name themselves by it.
DRAWN = re.compile(r"(?<=^PSYNC2: )(.*)$")
NUMBER = re.compile(r"\d+")

# An exception outside a test ends the whole run. This one gives an option a value that 7.0 lacks
# (Debian's patch of a security hole brought it), so it runs by itself.
ALONE = "integration/replication"
CLIENTS = 5  # units at the same time; most of their time is sleep
PORTS = {"all": 21000, "replication": 25000}  # the first of 4,000 each
SECONDS = 1500
# runtest keeps its servers' files beside its scripts and removes all it finds: each run has a copy.
COPY = 'cp -r "$0/tests" "$0/runtest" . && ln -s "$0/src" "$0/utils" . && exec ./runtest "$@"'


Parser = Callable[[Output], Outcomes]


def tree(folder: Path) -> Path:
    return debian.source_tree("redis", version(), folder)


def version() -> str:
    return debian.version("redis-server")


def prepare(folder: Path) -> None:
    source = debian.fetch_source("redis", version(), folder)
    libc = build.make("MALLOC=libc", "OPTIMIZATION=-O2")
    build.once(source, "suite", [libc, ["make", "-C", "tests/modules"]])


def parse(output: Output) -> Outcomes:
    found: Outcomes = {}
    for word, given in LINE.findall(COLOUR.sub("", output.text)):
        if word in OUTCOMES:
            name = DRAWN.sub(lambda match: NUMBER.sub("N", match[0]), given)
            found[name] = max(found.get(name, SKIPPED), OUTCOMES[word], key=WORST.index)
    return found


def parse_alone(output: Output) -> Outcomes:
    return {f"{ALONE}: {name}": outcome for name, outcome in parse(output).items()}


def command(name: str, folder: Path, words: Sequence[str], parser: Parser) -> Command:
    run = ["sh", "-c", COPY, tree(folder), "--clients", str(CLIENTS), *words]
    ports = ["--baseport", str(PORTS[name]), "--portcount", "4000"]
    return Command(name, [*run, *ports], parser, seconds=SECONDS)


def commands(folder: Path) -> Sequence[Command]:
    return [
        command("all", folder, ["--skipunit", ALONE], parse),
        command("replication", folder, ["--single", ALONE], parse_alone),
    ]


SUITE = Suite(
    what="every unit of runtest",
    version=version,
    packages=("redis-server", "gcc", "make", "tcl", "dpkg-dev"),
    prepare=prepare,
    commands=commands,
    probes=(("sh", "-c", "exec ../redis-*/src/redis-server --version"),),
    parallel=2,
)

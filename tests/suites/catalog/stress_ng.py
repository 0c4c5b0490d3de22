# SPDX-License-Identifier: Apache-2.0
"""stress-ng: stressors that allocate, map, fork, thread and sort, verifying what they wrote."""

from pathlib import Path

from harness import debian
from harness.suite import FAILED, PASSED, SKIPPED, Command, Outcomes, Output, Suite

SECONDS = 3  # each
STRESSORS = {
    "bad-altstack": "--bad-altstack 2",
    "bigheap": "--bigheap 1 --bigheap-growth 1m",
    "brk": "--brk 2",
    "bsearch": "--bsearch 1",
    "clone": "--clone 1",
    "daemon": "--daemon 1",
    "dynlib": "--dynlib 2",
    "env": "--env 1",
    "exit-group": "--exit-group 1",
    "fork": "--fork 2",
    "fork, more memory": "--fork 1 --fork-vm",
    "heapsort": "--heapsort 1",
    "hsearch": "--hsearch 1",
    "judy": "--judy 1",
    "list": "--list 1",
    "madvise": "--madvise 1",
    "malloc": "--malloc 2",
    "malloc, large": "--malloc 2 --malloc-bytes 64m --malloc-max 64 --malloc-touch",
    "malloc, small": "--malloc 2 --malloc-bytes 1k --malloc-max 200000",
    "malloc, threads": "--malloc 2 --malloc-pthreads 8",
    "malloc, threshold": "--malloc 2 --malloc-thresh 4k --malloc-zerofree",
    "memfd": "--memfd 1",
    "mergesort": "--mergesort 1",
    "mmap": "--mmap 1 --mmap-bytes 64m",
    "mmapmany": "--mmapmany 1",
    "mremap": "--mremap 1",
    "pthread": "--pthread 2 --pthread-max 64",
    "qsort": "--qsort 1",
    "radixsort": "--radixsort 1",
    "sigsegv": "--sigsegv 1",
    "skiplist": "--skiplist 1",
    "stack": "--stack 1",
    "str": "--str 1",
    "tree": "--tree 1",
    "tsearch": "--tsearch 1",
    "vfork": "--vfork 1",
    "vm": "--vm 2 --vm-bytes 64m",
    "vm-segv": "--vm-segv 1",
    "zlib": "--zlib 2",
    "zombie": "--zombie 2 --zombie-max 200",
}
EXIT_NO_RESOURCE, EXIT_NOT_IMPLEMENTED = 3, 4  # as its manual page says


def parser(name: str):
    def parse(output: Output) -> Outcomes:
        """One test; one that ends in trouble it only reports failed as well."""
        if output.status in (EXIT_NO_RESOURCE, EXIT_NOT_IMPLEMENTED):
            return {name: SKIPPED}
        good = output.status == 0 and "stress-ng: fail:" not in output.text
        return {name: PASSED if good else FAILED}

    return parse


def commands(folder: Path) -> list[Command]:
    common = ["--verify", "--timeout", f"{SECONDS}s", "--temp-path", "{folder}", "--oomable"]
    return [
        Command(name, ["stress-ng", *words.split(), *common], parser(name), seconds=SECONDS + 60)
        for name, words in STRESSORS.items()
    ]


SUITE = Suite(
    what=f"{len(STRESSORS)} stressors with --verify, {SECONDS} s each",
    version=lambda: debian.version("stress-ng"),
    packages=("stress-ng",),
    commands=commands,
    probes=(("stress-ng", "--version"),),
)

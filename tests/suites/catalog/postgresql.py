# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL: its regression tests, against the installed server in an instance of its own.

pg_regress, the scripts and the library of C functions that they call come from Debian's source of
the installed version. The server refuses to run as root; as root the tests run as user postgres.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from harness import build, debian
from harness.suite import FAILED, PASSED, Command, Outcomes, Output, Suite

BINARIES = Path("/usr/lib/postgresql/15/bin")
LIBRARIES = Path("/usr/lib/postgresql/15/lib")
PORT = 25432  # on a Unix socket only
SECONDS = 1500
CLIENTS = 8  # tests of a parallel group at the same time
LINE = re.compile(r"^(?:test)? +(\w+) +\.\.\. (ok|FAILED)", re.MULTILINE)
USER = "postgres"  # the package's, which the tests run as where root would


def version() -> str:
    return debian.version("postgresql-15")


def source(folder: Path) -> Path:
    return debian.source_tree("postgresql-15", version(), folder)


def prepare(folder: Path) -> None:
    tree = debian.fetch_source("postgresql-15", version(), folder)
    steps = [
        [tree / "configure", "--without-readline", "--without-zlib"],
        build.make("-C", "src/backend", "generated-headers"),
        build.make("-C", "src/test/regress"),
    ]
    build.once(folder / "build", "suite", steps)


def parse(output: Output) -> Outcomes:
    return {n: PASSED if word == "ok" else FAILED for n, word in LINE.findall(output.text)}


def drop_root(folder: str) -> list[str]:
    """Words before a command that run it as `USER`, who owns `folder` then; none if not root."""
    if os.getuid() != 0:
        return []
    script = f'chown {USER} "$0" && exec setpriv --reuid={USER} --regid={USER} --clear-groups "$@"'
    return ["sh", "-c", script, folder]


def commands(folder: Path) -> Sequence[Command]:
    scripts, made = source(folder) / "src/test/regress", folder / "build/src/test/regress"
    words = [
        made / "pg_regress",
        f"--bindir={BINARIES}",
        f"--inputdir={scripts}",
        f"--dlpath={made}",
        f"--schedule={scripts}/parallel_schedule",
        f"--max-connections={CLIENTS}",
        f"--port={PORT}",
        "--outputdir={folder}",
        "--temp-instance={folder}/instance",
        "--no-locale",
    ]
    return [Command("regress", [*drop_root("{folder}"), *words], parse, seconds=SECONDS)]


SUITE = Suite(
    what="its regression tests, in parallel groups",
    version=version,
    packages=("postgresql-15", "gcc", "make", "perl", "dpkg-dev"),
    prepare=prepare,
    commands=commands,
    probes=((BINARIES / "postgres", "--version"),),
)

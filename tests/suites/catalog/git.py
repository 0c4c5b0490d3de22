# SPDX-License-Identifier: Apache-2.0
"""git: every thirtieth script of its own tests, on the installed programs.

Scripts, templates and the helper that they call come from Debian's source of that version.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from harness import build, debian
from harness.suite import FAILED, PASSED, SKIPPED, Command, Outcomes, Output, Suite

PROGRAMS = Path("/usr/bin")
STRIDE = 30  # of 836 scripts
# The tests would otherwise preload glibc's libc_malloc_debug in our place.
ENVIRONMENT = {
    "TEST_NO_MALLOC_CHECK": "1",
    "GIT_TEST_INSTALLED": str(PROGRAMS),
    "GIT_TEST_CHAIN_LINT": "0",
}
# t8xxx and t9xxx: git-svn, git-cvs, p4 and others that need more packages.
SCRIPTS = "t[0-7]???-*.sh"
HELPER_OF = ("NO_CURL=1", "NO_EXPAT=1", "NO_TCLTK=1", "NO_GETTEXT=1")
LINE = re.compile(
    r"^(not ok|ok) (\d+)(?: -)?(?: (?!#)(.*?))?(?: # ((?i:skip|todo))\b.*)?$", re.MULTILINE
)


def version() -> str:
    return debian.version("git")


def tree(folder: Path) -> Path:
    return debian.source_tree("git", version(), folder)


def prepare(folder: Path) -> None:
    source = debian.fetch_source("git", version(), folder)
    helper = build.make(*HELPER_OF, "GIT-BUILD-OPTIONS", "t/helper/test-tool")
    build.once(source, "suite", [helper, ["make", "-C", "templates"]])


def parser(script: str) -> Callable[[Output], Outcomes]:
    def parse(output: Output) -> Outcomes:
        found = {}
        for word, number, title, remark in LINE.findall(output.text):
            outcome = SKIPPED if remark else PASSED if word == "ok" else FAILED
            found[f"{script} {number}: {title}"] = outcome
        return found

    return parse


def commands(folder: Path) -> Sequence[Command]:
    place = tree(folder) / "t"
    scripts = sorted(path.name for path in place.glob(SCRIPTS))[::STRIDE]
    return [
        Command(
            script,
            ["sh", script, "--root={folder}", "--no-color"],
            parser(script),
            place,
            environment=ENVIRONMENT,
        )
        for script in scripts
    ]


SUITE = Suite(
    what=f"each {STRIDE}th script of t0000 to t7999",
    version=version,
    packages=("git", "gcc", "make", "perl", "zlib1g-dev", "libssl-dev", "dpkg-dev"),
    prepare=prepare,
    commands=commands,
    probes=((PROGRAMS / "git", "--version"),),
    parallel=2,
)

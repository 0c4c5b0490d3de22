# SPDX-License-Identifier: Apache-2.0
"""Debian packages: which are there, which are missing, and the source of one.

Sources are found by the package archives that this machine uses, with lists and cache in a folder
of our own: neither root nor a change to the machine's configuration is needed.
"""

import os
import pwd
import subprocess
from collections.abc import Iterable
from pathlib import Path

from .suite import SuiteError


def version(package: str) -> str:
    """The installed version of `package`, or an empty text."""
    command = ["dpkg-query", "-W", "-f=${db:Status-Status} ${Version}", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    status, _, number = done.stdout.partition(" ")
    return number if status == "installed" else ""


def missing(packages: Iterable[str]) -> list[str]:
    """Those of `packages` that are not installed."""
    return [package for package in packages if not version(package)]


def require(suite: str, packages: Iterable[str]) -> None:
    """A SuiteError that says how to install what `suite` lacks."""
    if absent := missing(packages):
        raise SuiteError(
            f"{suite} needs packages that are not installed; as root:\n"
            f"  apt-get install --no-install-recommends {' '.join(absent)}"
        )


def _run(words: list[str], cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SuiteError(f"{' '.join(words[:2])} failed:\n{done.stderr.strip()[-600:]}")
    return done.stdout


def _apt(folder: Path) -> list[str]:
    """Options of apt-get that keep all it writes inside `folder`, made with its list of sources."""
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    layout = "$(SITE) $(RELEASE) $(COMPONENT) $(SIGNED_BY)"
    lines = _run(
        ["apt-get", "indextargets", "--format", layout, "Created-By: Packages"], folder
    ).splitlines()
    sources = []
    for site, release, component, *_ in sorted({tuple(line.split(maxsplit=3)) for line in lines}):
        sources.append(f"deb-src {site} {release} {component}\n")
    (folder / "sources.list").write_text("".join(sources))
    options = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": pwd.getpwuid(os.getuid()).pw_name,
    }
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def source_tree(package: str, number: str, folder: Path) -> Path:
    """Where `fetch_source` puts it; named without the epoch, as no PATH can hold a colon."""
    return folder / f"{package}-{number.partition(':')[2] or number}"


def fetch_source(package: str, number: str, folder: Path) -> Path:
    """The unpacked and patched source of `package` in version `number`, in `folder`."""
    tree = source_tree(package, number, folder)
    if not tree.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        apt = ["apt-get", "-q", *_apt(folder / "apt")]
        _run([*apt, "update"], folder)
        _run([*apt, "source", "--download-only", f"{package}={number}"], folder)
        file_number = tree.name.removeprefix(f"{package}-")
        partial = f"{tree.name}.partial"
        _run(["rm", "-rf", partial], folder)
        _run(["dpkg-source", "-x", f"{package}_{file_number}.dsc", partial], folder)
        (folder / partial).rename(tree)
    return tree

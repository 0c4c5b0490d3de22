# SPDX-License-Identifier: Apache-2.0
"""Fetches Debian packages of other releases, without touching the system's own list of sources.

Each release has a folder with lists of its own. The mirror and its keys are those of this system.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import pairwise, product
from pathlib import Path

_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


class AptError(RuntimeError):
    """A package cannot be fetched; one message with apt's words."""


@dataclass(frozen=True)
class Release:
    """One Debian release; `folder` keeps its lists between runs."""

    name: str
    folder: Path

    def source(self, package: str, into: Path) -> Path:
        """Fetches and unpacks the newest source of `package` that the mirror has; its folder.

        Of a version that only the lists have yet, upstream's part: it is older than Debian's.
        """
        self._update()
        into.mkdir(parents=True, exist_ok=True)
        words = ["apt-get", *self._options(), "source", "--only-source"]
        for part, version in product(([], ["--tar-only"]), self._versions(package)):
            try:
                _run([*words, *part, f"{package}={version}"], into)
                for file in into.glob("*.orig.tar.*") if part else ():
                    _run(["tar", "-xf", str(file)], into)
            except AptError as error:
                failed = error
                continue
            return next(path for path in into.iterdir() if path.is_dir())
        raise failed

    def binaries(self, packages: list[str], into: Path) -> Path:
        """Fetches binary packages and unpacks their files below `into`; nothing is installed."""
        self._update()
        into.mkdir(parents=True, exist_ok=True)
        _run(["apt-get", *self._options(), "download", *packages], into)
        for file in sorted(into.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(file), str(into)], into)
        return into

    def _versions(self, package: str) -> list[str]:
        """Of the source, the newest first."""
        rows = _run(["apt-cache", *self._options(), "showsrc", package], self.folder).splitlines()
        named = f"Package: {package}"
        found = [after.split()[1] for row, after in pairwise(_facts(rows)) if row == named]
        if not found:
            raise AptError(f"{self.name} has no source of {package}")
        return sorted(set(found), key=cmp_to_key(_compare), reverse=True)

    def _update(self) -> None:
        """Reads the release's lists, once."""
        sources = self.folder / "sources.list"
        if sources.exists():
            return
        for part in ("lists/partial", "cache/archives/partial"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        fresh = self.folder / "sources.new"
        fresh.write_text("".join(self._lines()))
        _run(["apt-get", *self._options(fresh), "update"], self.folder)
        fresh.rename(sources)

    def _lines(self) -> list[str]:
        suites = {"": self.name, "-security": f"{self.name}-security"}
        return [
            f"{kind} [signed-by={_KEYS}] {mirror} {suites[part]} main\n"
            for part, mirror in _mirrors().items()
            for kind in ("deb", "deb-src")
        ]

    def _options(self, sources: Path | None = None) -> list[str]:
        places = {
            "Dir::Etc::SourceList": sources or self.folder / "sources.list",
            "Dir::Etc::SourceParts": "-",
            "Dir::State::Status": "/dev/null",  # what is installed here does not count
            "Dir::State::Lists": self.folder / "lists",
            "Dir::Cache": self.folder / "cache",
            "APT::Sandbox::User": "root",
        }
        return [word for key, value in places.items() for word in ("-o", f"{key}={value}")]


def _mirrors() -> dict[str, str]:
    """The system's mirrors: of the releases (key ""), and of their security updates."""
    form = "$(SUITE) $(CODENAME) $(REPO_URI)"
    rows = _run(["apt-get", "indextargets", "--format", form, "Origin: Debian"], Path("/"))
    found = {}
    for row in rows.splitlines():
        found["-security" if "security" in row else ""] = row.split()[-1]
    if "" not in found:
        raise AptError("this system's apt knows no Debian mirror; `apt-get update` may help")
    return found


def _facts(rows: list[str]) -> list[str]:
    """The lines of `apt-cache showsrc` that name a package and its version."""
    return [row for row in rows if row.startswith(("Package: ", "Version: "))]


def _compare(a: str, b: str) -> int:
    """Debian's order of versions."""
    words = ["dpkg", "--compare-versions", a, "gt", b]
    return 1 if subprocess.run(words, check=False).returncode == 0 else -1


def _run(words: list[str], folder: Path) -> str:
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise AptError(f"{words[0]} is not installed; this needs Debian") from None
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
        raise AptError(f"{words[0]} failed: {(errors or [done.stderr.strip()])[-1]}")
    return done.stdout

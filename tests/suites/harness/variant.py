# SPDX-License-Identifier: Apache-2.0
"""Allocators and configurations: the environment of a run, and the proof that it has effect."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .suite import SuiteError

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from lab.allocators import OURS, debian_libraries  # noqa: E402
from lab.places import LIBRARY  # noqa: E402

LIBRARIES = {**debian_libraries(), OURS: LIBRARY}
# Short names of --conf; {folder} is the folder of the run.
CONFIGURATIONS = {
    "sampled": "profile:{folder}/profiles/profile,sample_interval:64KiB",
    "hardened": "hardened:on",
}


@dataclass(frozen=True)
class Variant:
    """An allocator, and for llamalloc its options."""

    allocator: str
    conf: str = ""  # a key of CONFIGURATIONS, or options as in LLAMALLOC_CONF

    @property
    def name(self) -> str:
        return f"{self.allocator}, {self.conf}" if self.conf else self.allocator

    @property
    def file_name(self) -> str:
        return re.sub(r"[^\w.-]+", "-", self.name)

    @property
    def library(self) -> Path | None:
        return LIBRARIES[self.allocator]

    def environment(self, folder: Path) -> dict[str, str]:
        """This process's environment, with the allocator in it; output in one language."""
        kept = {k: v for k, v in os.environ.items() if k not in {"LD_PRELOAD", "LLAMALLOC_CONF"}}
        kept |= {"LC_ALL": "C.UTF-8"}
        if self.library:
            kept["LD_PRELOAD"] = str(self.library)
        if self.conf:
            conf = CONFIGURATIONS.get(self.conf, self.conf)
            kept["LLAMALLOC_CONF"] = conf.replace("{folder}", str(folder))
        return kept


def variants(allocators: Sequence[str], confs: Sequence[str]) -> list[Variant]:
    """Each allocator once, but llamalloc once for each of `confs` if there are any."""
    for allocator in allocators:
        if allocator not in LIBRARIES:
            known = ", ".join(LIBRARIES)
            raise SuiteError(f"no such allocator: {allocator}; known: {known}")
        library = LIBRARIES[allocator]
        if library and not library.is_file():
            cure = "run: make build" if allocator == OURS else "install its Debian package"
            raise SuiteError(f"{library} is not there; {cure}")
    if confs and OURS not in allocators:
        raise SuiteError("--conf is for llamalloc, which --allocators leaves out")
    plain = [Variant(allocator) for allocator in allocators if allocator != OURS or not confs]
    return plain + [Variant(OURS, conf) for conf in confs]


def bound_to(bindings: str, symbol: str = "malloc") -> set[str]:
    """The libraries that LD_DEBUG=bindings says `symbol` is bound to.

    A program that is not position-independent holds a stub of its own for it, to which others are
    bound, and the stub to the library: what is bound further is not the end.
    """
    line = re.compile(rf"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: .* symbol `{symbol}'")
    pairs = {match.groups() for match in line.finditer(bindings)}
    stubs = {source for source, target in pairs if source != target and ".so" not in source}
    return {target for _, target in pairs if target not in stubs}


def prove(variant: Variant, probe: Sequence[str], folder: Path) -> None:
    """A SuiteError unless the loader binds malloc of the program `probe` to the allocator.

    Every process that the probe starts counts, as each inherits LD_DEBUG.
    """
    with tempfile.TemporaryDirectory() as scratch:
        loader = {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1", "LD_DEBUG_OUTPUT": f"{scratch}/log"}
        subprocess.run(
            [*probe],
            env=variant.environment(folder) | loader,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        log = "".join(p.read_text(errors="replace") for p in sorted(Path(scratch).iterdir()))
    found = bound_to(log)
    wanted = str(variant.library) if variant.library else "libc.so.6"
    if not found or any(not library.endswith(wanted) for library in found):
        raise SuiteError(
            f"{' '.join(probe)}: malloc is {', '.join(sorted(found)) or 'nowhere'}, not {wanted};"
            " is the program static, setuid, or does it bring an allocator of its own?"
        )

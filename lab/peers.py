# SPDX-License-Identifier: Apache-2.0
"""Shared objects of the peers that Debian does not carry, from the sources inside crates.

Cargo brings the crates, pinned by bench/peers/Cargo.lock, and nothing of Rust is measured. Each
peer is built as its own project builds its shared library: its own malloc and operator new,
exported under the standard names, with no wrapper between.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.places import PEERS_OUT as OUT
from lab.places import ROOT

WORKSPACE = ROOT / "bench" / "peers"
HIDDEN = ("-O3", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-ftls-model=initial-exec")


class PeerError(RuntimeError):
    """One peer cannot be built; the message says why."""


@dataclass(frozen=True)
class Peer:
    """A row: the feature of bench/peers/Cargo.toml, the crate, its source, how it is built."""

    name: str
    crate: str
    build: Callable[[Path, Path], str]

    @property
    def library(self) -> Path:
        return OUT / f"lib{self.name}.so"

    @property
    def note(self) -> Path:
        """Version and form, written when the build succeeds."""
        return OUT / f"{self.name}.json"


def run(*command: object, cwd: Path | None = None) -> str:
    """The output of a command. Raises PeerError with the last line of what it said."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise PeerError(f"{words[0]} is not installed") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or [""]
        errors = [line for line in said if "error" in line.lower()]
        raise PeerError(f"{Path(words[0]).name} failed: {(errors or said)[-1].strip()[:160]}")
    return done.stdout


def cargo(*arguments: object) -> str:
    return run("cargo", *arguments, cwd=WORKSPACE)


def source(peer: Peer) -> tuple[Path, str]:
    """(folder, version) of the peer's crate. Raises PeerError if cargo cannot bring it."""
    text = cargo("metadata", "--format-version=1", "--locked", "--features", peer.name)
    for package in json.loads(text)["packages"]:
        if package["name"] == peer.crate:
            return Path(package["manifest_path"]).parent, package["version"]
    raise PeerError(f"cargo did not bring {peer.crate}")


def build_jemalloc(crate: Path, library: Path) -> str:
    """Its own configure and make, in a copy, for it builds inside its tree."""
    tree = OUT / "jemalloc"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(crate / "jemalloc", tree)
    shutil.copy(crate / "configure" / "configure", tree)
    version = crate.name.partition("+")[2]
    run("bash", "configure", "--enable-doc=no", f"--with-version={version}", cwd=tree)
    run("make", f"-j{os.cpu_count()}", "build_lib_shared", cwd=tree)
    shutil.copy(tree / "lib" / "libjemalloc.so.2", library)
    return "its own shared library, as configure and make build it"


def build_mimalloc(crate: Path, library: Path) -> str:
    """One translation unit, as its CMakeLists.txt compiles the shared library."""
    tree = crate / "c_src" / "mimalloc" / "v3"
    defines = ("MI_SHARED_LIB", "MI_SHARED_LIB_EXPORT", "MI_MALLOC_OVERRIDE", "MI_BUILD_RELEASE")
    run(
        *("cc", "-std=gnu11", *HIDDEN, "-fno-builtin-malloc", *(f"-D{name}" for name in defines)),
        *(f"-I{tree}/include", f"-I{tree}/src", f"{tree}/src/static.c", "-o", library),
    )
    return "its own override objects, shared"


def build_snmalloc(crate: Path, library: Path) -> str:
    """The sources of its shim, as its CMakeLists.txt compiles them."""
    tree = crate / "upstream" / "src"
    run(
        *("c++", "-std=c++20", *HIDDEN, "-mcx16", "-fomit-frame-pointer", f"-I{tree}"),
        "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1",
        '-DSNMALLOC_EXPORT=__attribute__((visibility("default")))',
        *(tree / "snmalloc" / "override" / name for name in ("malloc.cc", "new.cc")),
        *("-o", library),
    )
    return "its own shim, shared"


def build_tcmalloc(crate: Path, library: Path) -> str:
    """The crate's archive; its tcmalloc.cc once more, this time with the standard names."""
    text = cargo(
        *("build", "--release", "--locked", "--features", "tcmalloc", "--message-format=json"),
        *("--target-dir", OUT / "cargo"),
    )
    messages = [json.loads(line) for line in text.splitlines()]
    archives = [
        path
        for message in messages
        if message.get("reason") == "build-script-executed"
        for path in Path(message["out_dir"]).glob("libtcmalloc.a")
    ]
    if not archives:
        raise PeerError("cargo built no libtcmalloc.a")
    tree = archives[0].parent / "patched_deps" / "c_src"
    objects = _without_bridges(archives[0])
    run(
        *("c++", "-std=c++17", "-O3", "-DNDEBUG", "-DTCMALLOC_INTERNAL_8K_PAGES", "-fPIC"),
        *("-shared", "-w", "-ftls-model=initial-exec"),
        *(f"-I{tree}/tcmalloc", f"-I{tree}/abseil-cpp", f"{tree}/tcmalloc/tcmalloc/tcmalloc.cc"),
        *("-Wl,--whole-archive", objects, "-Wl,--no-whole-archive", "-lpthread"),
        *("-Wl,-Bsymbolic", "-Wl,-z,defs", "-o", library),
    )
    return "its own override objects, shared"


def _without_bridges(archive: Path) -> Path:
    """A copy without the crate's own tcmalloc.cc. All the rest is linked whole: the per-CPU caches
    begin in a static constructor that nothing refers to."""
    copy = OUT / archive.name
    shutil.copy(archive, copy)
    bridges = [name for name in run("ar", "t", copy).split() if "bridge" in name]
    run("ar", "d", copy, *bridges)
    return copy


PEERS = (
    Peer("jemalloc", "tikv-jemalloc-sys", build_jemalloc),
    Peer("mimalloc3", "libmimalloc-sys", build_mimalloc),
    Peer("snmalloc", "snmalloc-sys", build_snmalloc),
    Peer("tcmalloc", "libtcmalloc-sys", build_tcmalloc),
)


def pinned(lock: Path = WORKSPACE / "Cargo.lock") -> str:
    """What the peers' sources are pinned to."""
    return hashlib.sha256(lock.read_bytes()).hexdigest()[:16]


def ready(peer: Peer, pin: str) -> bool:
    """Whether the peer was built from the sources that `pin` stands for."""
    if not (peer.library.exists() and peer.note.exists()):
        return False
    return json.loads(peer.note.read_text()).get("pinned") == pin


def find(name: str) -> Peer:
    """A row of PEERS. Raises KeyError."""
    return {peer.name: peer for peer in PEERS}[name]


def ensure(names: set[str], say: Callable[[str], None]) -> dict[str, str]:
    """Builds what of `names` is not there yet; {name: why not} for those that cannot be built."""
    failed = {}
    OUT.mkdir(parents=True, exist_ok=True)
    for peer in PEERS:
        if peer.name not in names or ready(peer, pinned()):
            continue
        say(f"building {peer.name} from {peer.crate} (once; a few minutes at most)")
        try:
            folder, version = source(peer)
            form = peer.build(folder, peer.library)
            note = {"version": version, "form": form, "pinned": pinned()}
            peer.note.write_text(json.dumps(note) + "\n")
        except PeerError as error:
            failed[peer.name] = str(error)
    return failed

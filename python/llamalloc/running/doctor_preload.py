# SPDX-License-Identifier: Apache-2.0
"""Why a process that was to run under llamalloc does not: what the loader or the kernel refused.

    LD_PRELOAD in /proc/PID/environ, the library not in /proc/PID/maps -> each cause, its cure

The loader says it once on stderr, which is often lost, and starts the program all the same. See
ld.so(8), "Secure-execution mode".
"""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from llamalloc.formats import elf
from llamalloc.running import launch
from llamalloc.running.doctor_finding import NOTE, OK, PROBLEM, Finding
from llamalloc.running.procmem import PROC, read_text

_AT_SECURE = 23
_OLDEST_GLIBC = (2, 35)
_START = "start it by: llamalloc run -- PROGRAM"
_SUBJECT = "preload"


def examine(pid: int, proc: Path = PROC) -> list[Finding]:
    """Why the process `pid` does not run under llamalloc; at least one finding."""
    folder = proc / str(pid)
    named = _preloaded(folder)
    if named is None:
        meaning = "its environment belongs to another user"
        cure = "use sudo" if os.geteuid() != 0 else "ask on the host, not in a container"
        return [Finding(PROBLEM, _SUBJECT, "unknown", meaning, cure)]
    ours = [name for name in named if "llamalloc" in Path(name).name]
    if not ours:
        other = f"LD_PRELOAD has {', '.join(named)}" if named else "LD_PRELOAD is not set"
        return [Finding(PROBLEM, _SUBJECT, other, "nobody asked for llamalloc", _START)]
    found = [*_of_program(folder), *_of_library(folder, ours[0])]
    return found or [
        Finding(
            PROBLEM, _SUBJECT, ours[0], "named in LD_PRELOAD, but not loaded; no cause was found",
            "read the first lines of its stderr: ld.so says there what it refused",
        )
    ]  # fmt: skip


def _preloaded(folder: Path) -> list[str] | None:
    try:
        block = (folder / "environ").read_bytes()
    except OSError:
        return None
    named = [v[11:] for v in block.split(b"\0") if v.startswith(b"LD_PRELOAD=")]
    return re.split(r"[ :]+", named[0].decode("utf-8", "replace").strip()) if named else []


# ----- The program -----


def _of_program(folder: Path) -> Iterator[Finding]:
    program = _inside(folder, _link(folder / "exe"))
    obstacle = launch.obstacle(program) if program.is_file() else None
    if obstacle:
        yield Finding(PROBLEM, "program", _outside(folder, obstacle.cause), "", obstacle.cure)
    elif _is_secure(folder):
        yield Finding(
            PROBLEM, "secure execution", "AT_SECURE is set",
            "it was started with more rights than its user has (setuid, setgid, capabilities, or a "
            "change of the security profile), so the loader ignores LD_PRELOAD",
            "start it without these rights (systemd: AmbientCapabilities=), or link the library in",
        )  # fmt: skip
    yield from _old_glibc(folder)


def _is_secure(folder: Path) -> bool:
    try:
        data = (folder / "auxv").read_bytes()
    except OSError:
        return False
    pairs = struct.iter_unpack("=QQ", data[: len(data) // 16 * 16])
    return any(kind == _AT_SECURE and value for kind, value in pairs)


def _old_glibc(folder: Path) -> Iterator[Finding]:
    for line in read_text(folder / "maps").splitlines():
        path = line.split(maxsplit=5)[-1]
        if re.search(r"/libc[.-][^/]*so[^/]*$", path) is None:
            continue
        try:
            found = re.search(
                rb"stable release version (\d+)\.(\d+)", _inside(folder, path).read_bytes()
            )
        except OSError:
            return
        if found and (int(found[1]), int(found[2])) < _OLDEST_GLIBC:
            version = f"glibc {int(found[1])}.{int(found[2])}"
            cure = "use a system with glibc 2.35 or newer, or build the library there"
            yield Finding(PROBLEM, "C library", version, "older than the library needs", cure)
        return


# ----- The library -----


def _of_library(folder: Path, name: str) -> Iterator[Finding]:
    if "/" not in name:
        meaning = "a name without a slash is looked for in the loader's folders only"
        yield Finding(PROBLEM, "library", name, meaning, "give the whole path in LD_PRELOAD")
        return
    path = Path(name) if name.startswith("/") else Path(_link(folder / "cwd")) / name
    yield from library_faults(path, folder)


def library_faults(path: Path, folder: Path = PROC / "self") -> Iterator[Finding]:
    """What keeps a process from loading the library at `path`, as the process sees it."""
    file = _inside(folder, path)
    try:
        facts = elf.read(file)
    except FileNotFoundError:
        meaning = "the process sees no such file; in a container it must be mounted there"
        yield Finding(PROBLEM, "library", f"{path}: no such file", meaning, "correct the path")
        return
    except (elf.ElfError, ValueError) as error:
        cure = "copy it anew; the build makes it: make build"
        yield Finding(PROBLEM, "library", f"{path}: {error}", "the loader refuses it", cure)
        return
    except OSError as error:
        yield _unreadable(path, error.strerror or str(error))
        return
    yield from _wrong_machine(folder, path, facts)
    if blocked := _closed_to(folder, file):
        yield _unreadable(path, f"the process may not read {_outside(folder, str(blocked))}")
    if mount := noexec_mount(path, read_text(folder / "mountinfo")):
        yield Finding(
            PROBLEM, "library", f"{path} is on {mount}, which is mounted noexec",
            "the kernel refuses to map code from there",
            f"copy it elsewhere, as to /usr/local/lib, or: mount -o remount,exec {mount}",
        )  # fmt: skip
    yield from _confined(folder, path)


def _unreadable(path: Path, why: str) -> Finding:
    cure = f"chmod a+r {path}, and a+x on the folders above it"
    return Finding(PROBLEM, "library", f"{path}: {why}", "the loader cannot open it", cure)


def _wrong_machine(folder: Path, path: Path, facts: elf.Elf) -> Iterator[Finding]:
    try:
        program = elf.read(_inside(folder, _link(folder / "exe")))
    except (elf.ElfError, OSError, ValueError):
        return
    if (program.bits, program.machine) != (facts.bits, facts.machine):
        yield Finding(
            PROBLEM, "library",
            f"{path} is for {_machine(facts)}, the program for {_machine(program)}",
            "the loader says `wrong ELF class`, or `cannot be preloaded`, and ignores it",
            "use a library that was built for the program's machine",
        )  # fmt: skip


def _machine(facts: elf.Elf) -> str:
    names = {elf.X86_64: "x86-64", elf.AARCH64: "ARM64", 3: "x86 (32 bit)", 40: "ARM (32 bit)"}
    return names.get(facts.machine, f"machine {facts.machine}, {facts.bits} bit")


def _closed_to(folder: Path, file: Path) -> Path | None:
    """The file, or a folder above it, that the process's user may not read or enter."""
    rows = dict(
        line.split(":", 1) for line in read_text(folder / "status").splitlines() if ":" in line
    )
    try:
        user = int(rows["Uid"].split()[1])
        groups = {int(rows["Gid"].split()[1]), *map(int, rows.get("Groups", "").split())}
    except (KeyError, ValueError, IndexError):
        return None
    if user == 0:
        return None
    top = _inside(folder, "/")
    above = [p for p in file.parents if p != top and top in p.parents]
    for path, wanted in ((file, stat.S_IROTH), *((p, stat.S_IXOTH) for p in above)):
        status = path.stat()
        shift = 6 if status.st_uid == user else 3 if status.st_gid in groups else 0
        if not status.st_mode & (wanted << shift):
            return path
    return None


def noexec_mount(path: Path, mountinfo: str) -> str:
    """The mount point that holds `path`, if it is mounted noexec; else empty (proc(5))."""
    best, options = "", ""
    for line in mountinfo.splitlines():
        words = line.split()
        point = words[4].encode().decode("unicode_escape") if len(words) > 5 else ""
        inside = point and (point == "/" or path == Path(point) or Path(point) in path.parents)
        if inside and len(point) >= len(best):
            best, options = point, words[5]
    return best if "noexec" in options.split(",") else ""


def _confined(folder: Path, path: Path) -> Iterator[Finding]:
    profile = read_text(folder / "attr/apparmor/current") or read_text(folder / "attr/current")
    profile = profile.rstrip("\0\n")
    if profile in ("", "unconfined", "kernel"):
        return
    if ":" in profile:  # SELinux: user:role:type:level
        kind = profile.split(":")[2] if profile.count(":") >= 2 else profile
        if kind.startswith("unconfined"):
            return
        cure = f"ausearch -m avc -ts recent; restorecon {path}, or: chcon -t lib_t {path}"
        meaning = "SELinux may forbid that it maps the library"
        yield Finding(NOTE, "SELinux", profile, meaning, cure)
        return
    if "enforce" not in profile and "(" in profile:
        return
    name = profile.split(" ")[0]
    cure = f"add to its profile: {path} mr,   then: apparmor_parser -r /etc/apparmor.d/..."
    meaning = "AppArmor forbids what the profile does not allow; journalctl -k shows DENIED"
    yield Finding(NOTE, "AppArmor", f"profile {name} (enforce)", meaning, cure)


# ----- The process's view -----


def _link(path: Path) -> str:
    try:
        return str(path.readlink()).removesuffix(" (deleted)")
    except OSError:
        return ""


def _inside(folder: Path, path: Path | str) -> Path:
    """A path of the process as we reach it: below its root, which is another in a container."""
    root = folder / "root"
    if _link(root) in ("", "/"):
        return Path(path)
    return root / str(path).lstrip("/")


def _outside(folder: Path, text: str) -> str:
    return text.replace(str(folder / "root"), "")


__all__ = ["NOTE", "OK", "PROBLEM", "examine", "library_faults", "noexec_mount"]

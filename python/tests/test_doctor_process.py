# SPDX-License-Identifier: Apache-2.0
"""`llamalloc doctor --pid`: processes under us, and each reason why a preload was refused: real
ones where they can be made here, else trees as /proc shows them."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.programs import TRIVIAL, compiled

from llamalloc.formats import elf
from llamalloc.running import doctor_preload, doctor_process, launch, published
from llamalloc.running.doctor_finding import NOTE, OK, PROBLEM, Finding
from llamalloc.running.published import NotUnderUsError, Published

NOBODY = 65534
SLEEPS = "#include <unistd.h>\nint main(void) { return sleep(60); }"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@contextmanager
def started(
    command: Sequence[str | Path], library: str | Path, conf: str = "", user: int | None = None
) -> Iterator[int]:
    env = {"LD_PRELOAD": str(library), "PATH": os.environ["PATH"]}
    env |= {"LLAMALLOC_CONF": conf} if conf else {}
    words = [str(word) for word in command]
    with subprocess.Popen(words, env=env, user=user, stderr=subprocess.DEVNULL) as process:
        try:
            wanted, deadline = os.fsencode(Path(words[0]).name), time.monotonic() + 20
            while wanted[:15] not in Path(f"/proc/{process.pid}/comm").read_bytes():
                assert time.monotonic() < deadline
            while "nanosleep" not in Path(f"/proc/{process.pid}/wchan").read_text() and (
                Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S"
            ):
                assert time.monotonic() < deadline
            yield process.pid
        finally:
            process.kill()


def problems(pid: int) -> str:
    found = [f for f in doctor_process.examine(pid) if f.level == PROBLEM]
    assert all(f.cure for f in found[1:]) and "does not run under" in found[0].found
    return " | ".join(f"{f.found} {f.meaning}" for f in found[1:])


def by_subject(findings: list[Finding]) -> dict[str, Finding]:
    return {f.subject: f for f in findings}


# ----- Under us -----


def test_a_process_under_us(tmp_path: Path) -> None:
    library = launch.find_library()
    conf = f"control:{tmp_path}/c,retain:4MiB,on_misuse:report,learn:on"
    with started(["sleep", "60"], library, conf) as pid:
        found = doctor_process.examine(pid)
    rows = by_subject(found)
    assert found[0].level == OK and str(library.resolve()) in found[0].meaning
    assert rows["options"].found == "retain:4MiB on_misuse:report"
    assert rows["addresses"].found == f"control:{tmp_path}/c"
    assert "since the start" in rows["sampling"].meaning and rows["sampling"].level == OK
    assert "learn:on" in rows["learning"].found and "live" in rows["memory"].found


def test_what_is_off_bears_a_cure() -> None:
    conf = "hugepages:off,worker:off,learn:off,control:/no/such/folder/c"
    with started(["sleep", "60"], launch.find_library(), conf) as pid:
        rows = by_subject(doctor_process.examine(pid))
    assert rows["learning"].found == "off"
    for subject in ("huge pages", "background thread", "sampling", "addresses"):
        assert rows[subject].level == NOTE and rows[subject].cure, rows[subject]
    assert "/run/NAME.%p.ctl" in rows["addresses"].cure


def test_the_command_and_its_exit_codes() -> None:
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "llamalloc.cli", "doctor", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    with started(["sleep", "60"], launch.find_library()) as pid:
        done = run("--json", "--pid", pid)
        assert json.loads(done.stdout)[0]["level"] == OK, done.stdout
    assert run("--pid", os.getpid()).returncode == 1
    gone = run("--pid", 4_000_000)
    assert gone.returncode == 2 and gone.stderr.count("\n") == 1
    assert "no such process" in gone.stderr
    assert run("--pid", 1, "sleep").returncode == 2


# ----- Refused: really -----


def test_nobody_asked() -> None:
    with started(["sleep", "60"], "") as pid:
        assert "not set" in problems(pid) or "LD_PRELOAD" in problems(pid)


def test_a_static_program(tmp_path: Path) -> None:
    program = compiled(tmp_path / "still", SLEEPS, "-static")
    with started([program], launch.find_library()) as pid:
        assert "statically linked" in problems(pid)


def test_a_library_that_is_missing_or_damaged(tmp_path: Path) -> None:
    library = tmp_path / "libllamalloc.so"
    with started(["sleep", "60"], library) as pid:
        assert "no such file" in problems(pid)
        library.write_bytes(b"text")
        assert "not an ELF file" in problems(pid)
        library.write_bytes(elf.MAGIC + b"\2\1" + bytes(100))
        assert problems(pid)
    with started(["sleep", "60"], "libllamalloc.so") as pid:
        assert "without a slash" in problems(pid)


def test_a_library_of_another_machine(tmp_path: Path) -> None:
    library = tmp_path / "libllamalloc.so"
    data = bytearray(launch.find_library().read_bytes())
    data[18:20] = struct.pack("<H", elf.AARCH64)
    library.write_bytes(data)
    with started(["sleep", "60"], library) as pid:
        assert "is for ARM64, the program for x86-64" in problems(pid)
    data[4], data[18:20] = 1, struct.pack("<H", 3)
    library.write_bytes(data)
    with started(["sleep", "60"], library) as pid:
        assert "is for x86 (32 bit)" in problems(pid)


@as_root
def test_a_library_that_the_user_may_not_read() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        library = folder / "libllamalloc.so"
        shutil.copy(launch.find_library(), library)
        folder.chmod(0o755)
        library.chmod(0o600)
        with started(["sleep", "60"], library, user=NOBODY) as pid:
            assert f"may not read {library}" in problems(pid)
        library.chmod(0o644)
        folder.chmod(0o700)
        with started(["sleep", "60"], library, user=NOBODY) as pid:
            assert f"may not read {folder}" in problems(pid)
    finally:
        shutil.rmtree(folder)


@as_root
def test_a_setuid_program() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        program = compiled(folder / "raised", SLEEPS)
        program.chmod(0o4755)
        with started([program], launch.find_library(), user=NOBODY) as pid:
            assert "AT_SECURE" in problems(pid) or "setuid" in problems(pid)
    finally:
        shutil.rmtree(folder)


@as_root
def test_a_mount_without_exec(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "noexec,size=32m", "tmpfs", tmp_path],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        library = tmp_path / "libllamalloc.so"
        shutil.copy(launch.find_library(), library)
        with started(["sleep", "60"], library) as pid:
            assert f"is on {tmp_path}, which is mounted noexec" in problems(pid)
    finally:
        subprocess.run(["umount", tmp_path], check=True)


# ----- Refused: trees as /proc shows them -----


class Tree:
    """/proc/7 of a process that was to be preloaded with `library`, and was not."""

    def __init__(self, folder: Path, **files: str | bytes) -> None:
        self.proc = folder / "proc"
        self.own = self.proc / "7"
        self.library = folder / "libllamalloc.so"
        shutil.copy(launch.find_library(), self.library)
        (self.own / "attr").mkdir(parents=True)
        (self.own / "root").symlink_to("/")
        (self.own / "cwd").symlink_to(folder)
        program = compiled(folder / "program", TRIVIAL)
        (self.own / "exe").symlink_to(program)
        environ = f"A=1\0LD_PRELOAD={self.library}\0B=2\0"
        status = f"Name:\tprogram\nUid:\t{NOBODY}\t{NOBODY}\nGid:\t1\t1\nGroups:\t5 6\n"
        self.write(comm="program\n", environ=environ, status=status, mountinfo="", maps="")
        self.write(**files)

    def write(self, **files: str | bytes) -> None:
        for name, content in files.items():
            path = self.own / name.replace("__", "/")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def findings(self) -> list[Finding]:
        def read(pid: int) -> Published:
            raise NotUnderUsError(str(pid))

        return doctor_process.examine(7, self.proc, read)[1:]


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that every user may enter."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize(("files", "level", "said"), [
    ({"attr__current": "redis-server (enforce)\n"}, NOTE, "profile redis-server (enforce)"),
    ({"attr__current": "system_u:system_r:httpd_t:s0\0"}, NOTE, "system_u:system_r:httpd_t:s0"),
    ({"auxv": struct.pack("=QQQQ", 23, 1, 0, 0)}, PROBLEM, "AT_SECURE is set"),
    ({"mountinfo": "1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /tmp rw,noexec - tmpfs t rw\n"},
     PROBLEM, "on /tmp, which is mounted noexec"),
])  # fmt: skip
def test_what_the_kernel_tells(
    folder: Path, files: dict[str, str | bytes], level: str, said: str
) -> None:
    if "mountinfo" in files and not str(folder).startswith("/tmp/"):
        pytest.skip("the temporary folder is not in /tmp")
    (found,) = Tree(folder, **files).findings()
    assert found.level == level and said in found.found and found.cure


@pytest.mark.parametrize("profile", ["unconfined\n", "redis (complain)\n", "", "kernel",
                                     "unconfined_u:unconfined_r:unconfined_t:s0"])  # fmt: skip
def test_no_cause_is_said_too(folder: Path, profile: str) -> None:
    (found,) = Tree(folder, attr__current=profile).findings()
    assert "no cause was found" in found.meaning and "stderr" in found.cure


def test_an_old_c_library(folder: Path) -> None:
    libc = folder / "libc.so.6"
    line = f"7f00-7f01 r-xp 00000000 08:01 1  {libc}\n"
    for version, faulty in ((b"2.31", True), (b"2.35", False), (b"2.40", False)):
        libc.write_bytes(b"GNU C Library stable release version " + version + b".\n")
        shutil.rmtree(folder / "proc", ignore_errors=True)
        found = Tree(folder, maps=line).findings()
        assert ("glibc 2.31" in found[0].found) == faulty


@pytest.mark.parametrize(("user", "cure"), [(1000, "use sudo"), (0, "ask on the host")])
def test_another_users_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, user: int, cure: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    tree = Tree(folder)
    (tree.own / "environ").unlink()
    (found,) = tree.findings()
    assert found.cure.startswith(cure)


def test_a_container_sees_its_own_files(folder: Path) -> None:
    tree = Tree(folder)
    (tree.own / "root").unlink()
    (folder / "inside").mkdir()
    (tree.own / "root").symlink_to(folder / "inside")
    assert "in a container" in " ".join(f.meaning for f in tree.findings())


def test_mounts_are_told_by_the_longest_point() -> None:
    text = (
        "1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /a rw,noexec - tmpfs t rw\n"
        "3 2 0:3 / /a/b rw - tmpfs t rw\n4 1 0:4 / /with\\040space noexec,rw - tmpfs t rw\n"
    )
    for path, mount in (("/x", ""), ("/a/x", "/a"), ("/ab", ""), ("/a/b/x", ""),
                        ("/with space/x", "/with space")):  # fmt: skip
        assert doctor_preload.noexec_mount(Path(path), text) == mount


def test_options_that_an_older_library_does_not_tell() -> None:
    at = Published(1, {}, {})
    assert at.option("retain") is None
    assert isinstance(published.figures(at), dict)

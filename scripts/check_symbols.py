#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves from the object code that nothing below the shim can allocate, throw or block.

Static libraries of the rooms base os pages heap predict profile placement release learning
state_file engine telemetry:
    no call of malloc and its family, operator new and delete, pthread locks, exceptions, guards of
    function statics, the C++ run time, or libc functions that allocate behind the caller's back.
    all of these but base, os and telemetry besides: of libc only what PLAIN lists.
    placement, release and learning besides: of os only the arena and locks, of predict nothing that
    opens a file.
    pages to telemetry: no global variables.
libllamalloc.so, and libllamalloc_trace.so, which records:
    needs libc and the loader only; every undefined symbol in src/shim/imports.txt (the recording
    one also in imports_trace.txt); exports exactly what src/shim/exports.map lists (and what
    exit.cc defines); no text relocation, no executable stack, small static TLS.
libllamalloc.so, as GCC makes it for x86-64: code and constants stay within a budget.
src/shim/exports.map and libllamalloc.a: the names of contracts/api.def, no more and no less.

Usage: check_symbols.py [BUILD_DIRECTORY]   (default: build/release)
"""

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from llamalloc.formats import contracts  # noqa: E402

PURE_ROOMS = ("placement", "release", "learning")  # no system call
STRICT_ROOMS = ("pages", "heap", "predict", "profile", *PURE_ROOMS, "state_file", "engine")
WITHOUT_GLOBALS = (*STRICT_ROOMS, "telemetry")
ROOMS = ("base", "os", *WITHOUT_GLOBALS)

FORBIDDEN = re.compile(
    r"""(
      malloc | calloc | realloc | reallocarray | free | cfree | posix_memalign | aligned_alloc
    | memalign | p?valloc | strn?dup | v?asprintf | getline | getdelim | open_memstream
    | _Z(nw|na|dl|da).*                                    # operator new, operator delete
    | pthread_(mutex|rwlock|cond|once|barrier|spin|key|getattr|create).*
    | __cxa_(throw|rethrow|allocate|begin|end|guard|get_exception|atexit|call|pure).*
    | __gxx_personality.* | _Unwind_.* | __tls_get_addr
    | _ZN?K?St.* | _ZNK?S[abiods].* | _ZT[ISV].*           # libstdc++ run time, RTTI
    | f(d|re)?open(64)? | f?d?opendir | scandir.* | popen | tmpfile(64)?
    | v?f?printf | __v?f?printf_chk | f?puts | fwrite | fread | fputc | putchar | perror
    | qsort(_r)? | realpath | getcwd | setenv | putenv | unsetenv | localtime(_r)? | mktime
    | strftime | strerror | backtrace.* | dl(open|sym|vsym|addr.*) | getpw.* | getgr.*
    | getaddrinfo | syslog | glob | regcomp | sem_open | shm_open | atexit
    )""",
    re.VERBOSE,
)

PLAIN = re.compile(
    r"""(
      mem(cpy|move|set|cmp|chr|rchr|mem) | str(n)?(len|cmp|chr|rchr|cpy|ncpy|str) | strchrnul
    | v?snprintf | __v?snprintf_chk | __(mem|str)\w+_chk | abort | __stack_chk_fail
    | _GLOBAL_OFFSET_TABLE_
    | __[a-z]+[sdt]i[234]                                   # integer helpers of libgcc
    | __errno_location | sched_yield | getpid | clock_gettime
    )""",
    re.VERBOSE,
)

SYSTEM_CALLS = {"sched_yield", "getpid", "clock_gettime"}  # plain for other rooms
# What PURE_ROOMS may reference of a room that makes system calls, as c++filt prints it.
# Lock: of the arena and the profiler.
PASSED_IN = {
    "os": r"llamalloc::(MetadataArena|Lock)::.*|llamalloc::locks_of_this_thread",
    "predict": r"llamalloc::(?!Evaluator::load|ModelFile::).*",
}

NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
MAX_STATIC_TLS = 1024  # bytes; glibc keeps about 1.6 KiB spare for libraries loaded late
# What `size` calls text. The library had 346,640 bytes before one could look into a process while
# it runs. That, and what else has come since, was to cost at most 44 KiB; to carry over to another
# build what was learned 14 KiB more; that threads on many processors do not wait for each other,
# and that what given-up placement left is used, 10; to answer by the names of functions at once 9;
# that mappings serve smaller requests and have room to grow 2; that spans change their group 3; to
# look up callers by path in each entry point, and to weigh what that costs, 6; that shelves find by
# kind, and spans of one slot need no lock of their bin, 2; that fuller pages are broken and groups
# take over pages, 1; that mending has a bound in time, and a trough counts whose memory has gone
# back, that all sets are mended in turn, that placement begun late is judged apart, and that who
# switches huge pages off is taken at his word, 1; that groups share what is free near a limit, 1;
# that contexts are explored before a trial, and that words of flags are no paths, 2; that ranges
# are named, spans listed a few at a time, and memory promised before it is taken, 5; that the
# worker does not run below the program, and that a filter of its own is heeded in full, 1; that
# signals wait around a fork, lines nobody reads end no process, files and exits tell whose they
# are, and the state file stays its user's, 4; that no call looks at all spans or pages at once, a
# hard limit bounds holes, and builds keep each other's record, 4; that stacks that never come again
# count by their innermost frames, and long runs of functions are walked over once, 2; that
# programs may have gaps, cut files end nothing, and closed descriptors are left alone, 2; that
# no hole hides another, ends of buffers are taken over, and commands hear reasons, 1; that what is
# given back is not committed, caches make room where the heap grows, and bursts of mappings are
# kept, 3; that sleepers' caches make room, too, with no step lost, and runs that leave much of a
# page get mappings, 4; that a jemalloc loaded beside us keeps what it made, 1; that
# what descriptors lead to stays, what was opened is looked at, and sandboxes may refuse a call, 2;
# that a first caller, and exploring, have a short way of their own, and paths two slots, 2.
MAX_TEXT = 346_640 + 126 * 1024


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(path: Path, *, dynamic: bool = False) -> tuple[set[str], set[str]]:
    """(undefined, defined global) symbol names of an object, archive or shared library."""
    undefined, defined = set(), set()
    options = ["-D"] if dynamic else []
    for line in run("nm", *options, str(path)).splitlines():
        match = re.match(r"^[0-9a-f ]{16} (?P<kind>[A-Za-z]) (?P<name>\S+)", line)
        if not match:
            continue
        name = match["name"].split("@")[0]
        if not line[:16].strip():
            undefined.add(name)
        elif match["kind"] != "A" and (match["kind"].isupper() or match["kind"] in "uwv"):
            defined.add(name)
    return undefined, defined


def check_rooms(libraries: dict[str, Path]) -> list[str]:
    """Faults of the static libraries, by room."""
    tables = {room: symbols(path) for room, path in libraries.items()}
    ours = set().union(*(defined for _, defined in tables.values()))
    faults = []
    for room, (undefined, _) in tables.items():
        for name in sorted(undefined - ours):
            if FORBIDDEN.fullmatch(name):
                faults.append(f"{room}: calls {name}: may allocate, throw or block")
            elif room in STRICT_ROOMS and not PLAIN.fullmatch(name):
                faults.append(f"{room}: calls {name}: not plain; ask the os room for it")
            elif room in PURE_ROOMS and name in SYSTEM_CALLS:
                faults.append(f"{room}: calls {name}: {room} makes no system call")
    return faults


def check_passed_in(libraries: dict[str, Path]) -> list[str]:
    """References to what PASSED_IN leaves out: ways around the caller to the system."""
    faults = []
    for maker, allowed in PASSED_IN.items():
        made = symbols(libraries[maker])[1]
        for room in PURE_ROOMS:
            reached = symbols(libraries[room])[0] & made
            names = run("c++filt", *sorted(reached)).splitlines() if reached else []
            bad = [name for name in names if not re.fullmatch(allowed, name)]
            faults += [f"{room}: uses {name} of {maker}: let the caller pass it in" for name in bad]
    return faults


def check_globals(libraries: dict[str, Path]) -> list[str]:
    """Variables of static life in rooms that get all they need passed in; constants: kName."""
    faults = []
    for room, path in libraries.items():
        for line in run("nm", "-C", str(path)).splitlines() if room in WITHOUT_GLOBALS else ():
            match = re.match(r"^[0-9a-f]{16} [bBdD] (?P<name>.+)$", line)
            name = match["name"].split("(")[0] if match else ""
            constant = re.search(
                r"(^|::)k[A-Z]\w*$|vtable for|^DW\.ref", match["name"] if match else ""
            )
            if match and not constant:
                faults.append(f"{room}: global variable {name or match['name']}: pass it in")
    return faults


def exported_by_map(text: str) -> set[str]:
    """Names in the global part of a linker version script."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", text, flags=re.DOTALL)
    names: set[str] = set()
    for block in re.findall(r"global:(.*?)(?:local:|\})", text, flags=re.DOTALL):
        names |= set(re.findall(r"[^\s;{}]+(?=\s*;)", block))
    return names


def words_of(path: Path) -> set[str]:
    """Words of a list file; `#` starts a comment."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {word for line in lines for word in line.split("#")[0].split()}


def difference(title: str, found: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """One fault per name that is in one of the two sets only."""
    found, wanted = set(found), set(wanted)
    extra = [f"{title}: {name} is not listed" for name in sorted(found - wanted)]
    return extra + [f"{title}: {name} is listed but absent" for name in sorted(wanted - found)]


def check_product(library: Path, exports: set[str], imports: set[str]) -> list[str]:
    """Faults of the shared library against its tables."""
    undefined, defined = symbols(library, dynamic=True)
    dynamic = run("readelf", "-dW", str(library))
    needed = set(re.findall(r"\(NEEDED\).*\[(.+?)\]", dynamic))
    faults = [f"needs {name}: only libc and the loader" for name in sorted(needed - NEEDED)]
    if "TEXTREL" in dynamic:
        faults.append("has text relocations: some code is not position independent")
    segments = run("readelf", "-lW", str(library))
    if re.search(r"GNU_STACK.*\bRWE\b", segments):
        faults.append("wants an executable stack: an assembler file lacks .note.GNU-stack")
    tls = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", segments, re.MULTILINE)
    if tls and int(tls[1], 16) > MAX_STATIC_TLS:
        faults.append(f"{int(tls[1], 16)} bytes of static TLS, at most {MAX_STATIC_TLS}")
    extra = sorted(undefined - imports)
    faults += [f"imports {name}: not in src/shim/imports.txt" for name in extra]
    faults += difference("exports", defined, exports)
    return [f"{library.name}: {fault}" for fault in faults]


def check_size(library: Path, most: int = MAX_TEXT) -> list[str]:
    """A fault if `library` has more bytes of code and constants than its budget."""
    compilers = run("readelf", "-p", ".comment", str(library))  # crtbegin is GCC's always
    if "clang" in compilers or "X86-64" not in run("readelf", "-h", str(library)):
        return []  # another compiler or processor, another size
    text = int(run("size", str(library)).splitlines()[1].split()[0])
    cure = "compile what only looks at a process with llamalloc_small() (cmake/layer.cmake)"
    return [f"{library.name}: {text:,} bytes of text, at most {most:,}: {cure}"] * (text > most)


def check_table(exports: set[str], static: set[str]) -> list[str]:
    """Faults of the version script and of what the static library defines, against api.def."""
    wanted = {name.symbol for name in contracts.exported_names()}
    shared = {name.symbol for name in contracts.shared_names()}
    faults = difference("exports.map", exports, wanted | shared)
    return faults + difference("libllamalloc.a", static, wanted | set(contracts.static_names()))


def main(arguments: list[str]) -> int:
    build = Path(arguments[0]) if arguments else ROOT / "build" / "release"
    libraries = {room: build / "src" / room / f"libllamalloc_{room}.a" for room in ROOMS}
    product, recording = build / "libllamalloc.so", build / "libllamalloc_trace.so"
    archive = build / "libllamalloc.a"
    products = [product, recording, archive]
    absent = [str(p) for p in [*libraries.values(), *products] if not p.is_file()]
    if absent:
        print(f"symbols: not built: {' '.join(absent)}; run: make build", file=sys.stderr)
        return 1
    shim = ROOT / "src" / "shim"
    exports = exported_by_map((shim / "exports.map").read_text(encoding="utf-8"))
    faults = check_rooms(libraries) + check_passed_in(libraries) + check_globals(libraries)
    imports = words_of(shim / "imports.txt")
    faults += check_product(product, exports, imports) + check_size(product)
    faults += check_table(exports, symbols(archive)[1])
    imports |= words_of(shim / "imports_trace.txt")
    faults += check_product(recording, exports | {"_exit", "_Exit", "daemon"}, imports)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an include or import that does not point strictly downward.

CPP_LAYERS and PYTHON_LAYERS below are the order. Equal layers are strangers. Invariant: a file of a
room includes only its own room and rooms of a smaller number; a `_test`, `_bench` or `_fuzz` twin
likewise, though it may include any system header. Elsewhere system headers beyond ISO C and C++
stay where SYSTEM_HEADERS says, and a room of OS_HEADERS includes of os only what stands there.
Python modules of one room import each other without a cycle.

Usage: check_layers.py [ROOT]
"""

import ast
import re
import sys
from pathlib import Path

CPP_LAYERS = {
    "contracts": 0,
    "llamalloc": 0,  # include/llamalloc/llamalloc.h: the public C API
    "base": 1,
    "os": 2,
    "pages": 3,
    "heap": 4,
    "predict": 4,
    "profile": 4,
    "trace": 4,
    "placement": 5,
    "release": 5,
    "telemetry": 5,
    "trace_file": 5,
    "generator": 5,
    "learning": 6,
    "engine": 7,
    "state_file": 7,
    "runtime": 8,
    "recorder": 8,
    "sim": 8,
    "shim": 9,
    "tools": 9,
}

# Rooms of python/llamalloc, which ships, and of lab/, which does not: so nothing shipped can import
# lab. A module belongs to the longest name here that it begins with.
PYTHON_LAYERS = {
    "llamalloc.formats": 1,
    "llamalloc.learning": 2,
    "llamalloc.running": 2,
    "llamalloc.reporting": 3,
    "llamalloc.cli": 4,
    "lab": 5,
    "lab.agreement": 6,
    "lab.bench": 6,
    "lab.demo": 6,
    "lab.learning": 7,
    "lab.live": 6,
    "lab.paper": 8,
    "lab.sites": 6,
    "lab.versions": 7,
    "lab.workloads": 6,
}

# ISO C++ headers carry no suffix; these are ISO C's.
ISO_HEADER = re.compile(
    r"\w+|(assert|ctype|errno|float|inttypes|limits|math|setjmp|signal|stdalign|stdarg|stdbool"
    r"|stddef|stdint|stdio|stdlib|string|time)\.h"
)

# Headers of the platform or of the compiler that a room may use beyond ISO_HEADER.
ANY = re.compile(r".*")
SYSTEM_HEADERS = {
    "os/linux": ANY,
    "os/fake": ANY,
    "base": re.compile(r"(unistd|sys/syscall)\.h"),  # the last words of a failed check
    "predict": re.compile(r"immintrin\.h"),  # vector kernels, behind a run-time check
    # The process itself: threads, fork, exit, the control socket. The simulator has none of them.
    # Clients of a socket, in any process.
    "telemetry": re.compile(r"(poll|unistd|sys/(socket|stat|types))\.h"),
    "runtime": re.compile(
        r"(arpa/inet|netinet/in|pthread|sched|unistd|sys/(prctl|socket|stat|syscall|un))\.h"
        r"|dlfcn\.h"  # the C library's free, for an object that it allocated
    ),
    "recorder": re.compile(
        r"(fcntl|pthread|sched|signal|unistd|sys/(prctl|resource|stat|syscall))\.h"
    ),
    "trace_file": re.compile(r"(fcntl|unistd|zstd|sys/(mman|stat))\.h"),  # for tools, not preloaded
    "shim": re.compile(
        r"(malloc|unistd|dlfcn)\.h"
    ),  # what the shim defines, and what it stands for
    "tools": ANY,
}

# Rooms that make no system call, and the headers of os that they may include: interfaces and memory
# that callers pass in. scripts/check_symbols.py checks the same of the object code.
OS_HEADERS = dict.fromkeys(("placement", "release", "learning"), re.compile(r"os/(arena|pages)\.h"))

INCLUDE = re.compile(r'^\s*#\s*include\s*(?P<open>["<])(?P<name>[^">]+)[">]')
TWIN = re.compile(r"(^|_)(test|bench|fuzz)(_\w+)?\.(cc|h)$")


def check_include(file: Path, name: str, quoted: bool) -> str | None:
    """What is wrong with the include of `name` in `file` (relative to src/), or None."""
    room, target = file.parts[0], name.split("/")[0]
    if not quoted:
        return (
            None
            if TWIN.search(file.name) or is_allowed(file, name)
            else (f"<{name}>: a platform header; only os/linux may know the platform")
        )
    if target not in CPP_LAYERS:
        return f'"{name}": not a room; write room/file.h, add new rooms to scripts/check_layers.py'
    allowed = OS_HEADERS.get(room, ANY) if not TWIN.search(file.name) else ANY
    if target == "os" and not allowed.fullmatch(name):
        return f'"{name}": {room} makes no system call; let the caller pass in what it needs'
    if target == room or CPP_LAYERS[target] < CPP_LAYERS[room]:
        return None
    return (
        f'"{name}": {room} is layer {CPP_LAYERS[room]}, {target} is layer {CPP_LAYERS[target]};'
        " a room includes only smaller numbers"
    )


def is_allowed(file: Path, name: str) -> bool:
    """Whether `file` (relative to src/) may include the system header `name`."""
    if ISO_HEADER.fullmatch(name):
        return True
    places = ["/".join(file.parts[:n]) for n in (1, 2)]
    return any(
        place in SYSTEM_HEADERS and SYSTEM_HEADERS[place].fullmatch(name) for place in places
    )


def check_cpp(root: Path) -> list[str]:
    """Faults of every C++ file under root/src."""
    faults = []
    for path in sorted(p for p in (root / "src").rglob("*") if p.suffix in {".h", ".cc"}):
        file = path.relative_to(root / "src")
        if file.parts[0] not in CPP_LAYERS:
            faults.append(f"src/{file}: room {file.parts[0]} has no layer in check_layers.py")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            fault = match and check_include(file, match["name"], match["open"] == '"')
            if fault:
                faults.append(f"src/{file}:{number}: {fault}")
    return faults


def imports_of(tree: ast.AST, package: str) -> list[tuple[int, str]]:
    """(line, dotted name) of everything inside llamalloc and lab that a parsed file imports.

    `from a.b import c` gives a.b.c, whether c is a module or a name.
    """
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base]).rstrip(".")
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [(node.lineno, n) for n in names if n.split(".")[0] in ("llamalloc", "lab")]
    return found


def room_of(module: str) -> str | None:
    """The room of a dotted name; None for what is in none, as llamalloc/__init__.py."""
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in names if name in PYTHON_LAYERS), None)


def python_modules(root: Path) -> dict[str, Path]:
    """Every module of python/llamalloc and lab by its dotted name."""
    found = {}
    for home, start in ((root / "python" / "llamalloc", root / "python"), (root / "lab", root)):
        for path in sorted(home.rglob("*.py")):
            parts = path.relative_to(start).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def check_import(module: str, target: str) -> str | None:
    """What is wrong with the import of `target` in `module`, or None."""
    if target.split(".")[1:2] and target.split(".")[1].startswith("_"):
        return None  # llamalloc.__version__, llamalloc._contracts
    own, room = room_of(module), room_of(target)
    if own == room or (room and PYTHON_LAYERS[room] < PYTHON_LAYERS.get(own, 2)):
        return None
    layer = PYTHON_LAYERS.get(own, 2)
    return (
        f"imports {target} ({room} is layer {PYTHON_LAYERS.get(room)}); {own} is layer {layer}"
        " and imports only smaller numbers"
    )


def cycle_of(graph: dict[str, list[str]]) -> list[str] | None:
    """The modules of one cycle, the first again at the end; None if there is none."""
    done: set[str] = set()

    def visit(module: str, above: list[str]) -> list[str] | None:
        if module in above:
            return [*above[above.index(module) :], module]
        if module in done:
            return None
        for target in graph.get(module, ()):
            if cycle := visit(target, [*above, module]):
                return cycle
        done.add(module)
        return None

    return next((cycle for module in graph if (cycle := visit(module, []))), None)


def check_python(root: Path) -> list[str]:
    """Faults of every module under root/python/llamalloc and root/lab."""
    modules = python_modules(root)
    faults, graph = [], {}
    for module, path in modules.items():
        file = path.relative_to(root)
        if room_of(module) is None and module != "llamalloc":
            faults.append(f"{file}: {module} has no layer in check_layers.py; put it into a room")
            continue
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        graph[module] = []
        for number, name in imports_of(ast.parse(path.read_text(encoding="utf-8")), package):
            if fault := check_import(module, name):
                faults.append(f"{file}:{number}: {fault}")
            target = name if name in modules else name.rpartition(".")[0]
            if room_of(target) == room_of(module) and target != package:
                graph[module].append(target)
    if cycle := cycle_of(graph):
        faults.append(f"{modules[cycle[0]].relative_to(root)}: a cycle: {' -> '.join(cycle)}")
    return faults


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    faults = check_cpp(root) + check_python(root)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on an include or import that does not point strictly downward.

CPP_LAYERS and PYTHON_ORDER below are the order. Equal layers are strangers. Invariant: a file of a
room includes only its own room and rooms of a smaller number; a `_test`, `_bench` or `_fuzz` twin
likewise, though it may include any system header. Elsewhere system headers beyond ISO C and C++
stay where SYSTEM_HEADERS says.

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
    "heap": 3,
    "predict": 3,
    "profile": 3,
    "trace": 3,
    "policy": 4,
    "telemetry": 4,
    "trace_file": 4,
    "generator": 4,
    "runtime": 5,
    "recorder": 5,
    "sim": 5,
    "shim": 6,
    "tools": 6,
}

# One string a layer, the lowest first.
PYTHON_ORDER = [
    "contracts",
    "units histogram tokens pprof_proto procmem control elf",
    "profile survival hugepages launch attach child residency",
    "labels recording traces simulation doctor",
    "dataset metrics lstm reporting",
    "baselines fit model_file train_result",
    "train train_charts",
    "train_report demo bench",
    "workloads",
    "cli",
]
PYTHON_LAYERS = {name: n for n, names in enumerate(PYTHON_ORDER, 1) for name in names.split()}

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
        r"(pthread|sched|unistd|sys/(prctl|socket|stat|syscall|un))\.h"
        r"|dlfcn\.h"  # the C library's free, for an object that it allocated
    ),
    "recorder": re.compile(
        r"(fcntl|linux/membarrier|pthread|sched|signal|unistd|sys/(prctl|resource|stat|syscall))\.h"
    ),
    "trace_file": re.compile(r"(fcntl|unistd|zstd|sys/(mman|stat))\.h"),  # for tools, not preloaded
    "shim": re.compile(
        r"(malloc|unistd|dlfcn)\.h"
    ),  # what the shim defines, and what it stands for
    "tools": ANY,
}

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
    """(line, module) of everything inside llamalloc that a parsed file imports."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base]).rstrip(".")
            names = [base] if base != "llamalloc" else [f"{base}.{a.name}" for a in node.names]
        else:
            continue
        found += [(node.lineno, n.split(".")[1]) for n in names if n.startswith("llamalloc.")]
    return found


def check_python(root: Path) -> list[str]:
    """Faults of every module under root/python/llamalloc."""
    home = root / "python" / "llamalloc"
    faults = []
    for path in sorted(home.rglob("*.py")):
        file = path.relative_to(home)
        module = file.parts[0].removesuffix(".py")
        if module in {"__init__", "__main__"} and len(file.parts) == 1:
            continue
        if module not in PYTHON_LAYERS:
            faults.append(f"python/llamalloc/{file}: {module} has no layer in check_layers.py")
            continue
        package = ".".join(["llamalloc", *file.parts[:-1]])
        for number, target in imports_of(ast.parse(path.read_text(encoding="utf-8")), package):
            if target == module or target.startswith("_"):
                continue
            low, own = PYTHON_LAYERS.get(target), PYTHON_LAYERS[module]
            if low is None or low >= own:
                faults.append(
                    f"python/llamalloc/{file}:{number}: imports {target} (layer {low});"
                    f" {module} is layer {own} and imports only smaller numbers"
                )
    return faults


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    faults = check_cpp(root) + check_python(root)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

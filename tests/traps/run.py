#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every trap under every allocator, as the table of docs/compatibility.md.

Build first: cmake --preset release && cmake --build --preset release --target traps llamalloc
Peers are the libraries of libjemalloc2, libtcmalloc-minimal4 and libmimalloc2.0; one that is not
installed is left out.
"""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from trap_list import PEERS, PROGRAMS, TRAPS, Result, Trap, spring


def cell(result: Result) -> str:
    if result.kind == "ok":
        return "ok"
    signal_ends = result.text.startswith("SIG")
    return f"{result.kind} ({result.text.split()[0]})" if signal_ends else result.kind


def table(rows: list[tuple[Trap, list[Result]]], allocators: list[str]) -> str:
    lines = [
        "| trap | what | " + " | ".join(allocators) + " |",
        "|---|---|" + "---|" * len(allocators),
    ]
    lines += [
        f"| {trap.name} | {trap.what} | " + " | ".join(map(cell, results)) + " |"
        for trap, results in rows
    ]
    return "\n".join(lines)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="allocators, by commas: " + ",".join(PEERS))
    parser.add_argument("--trap", default="", help="traps whose name contains this")
    options = parser.parse_args(arguments)
    unknown = set(filter(None, options.only.split(","))) - PEERS.keys()
    if unknown:
        parser.error(f"no such allocator: {', '.join(unknown)}; known: {', '.join(PEERS)}")
    return options


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if not (PROGRAMS / "early").is_file():
        print(f"the traps are not built; run: {__doc__.splitlines()[2][13:]}", file=sys.stderr)
        return 2
    wanted = options.only.split(",") if options.only else list(PEERS)
    allocators = [a for a in wanted if PEERS[a] is None or PEERS[a].is_file()]
    rows = []
    for trap in TRAPS:
        if options.trap not in trap.name:
            continue
        with ThreadPoolExecutor() as pool:  # the allocators of a trap side by side
            results = list(pool.map(lambda a, t=trap: spring(t, PEERS[a]), allocators))
        for allocator, result in zip(allocators, results, strict=True):
            line = f"{trap.name:32} {allocator:10} {result.kind:6} {result.seconds:5.1f} s"
            print(f"{line}  {result.text[:110]}", file=sys.stderr, flush=True)
        rows.append((trap, results))
    print(table(rows, allocators))
    ours = allocators.index("llamalloc") if "llamalloc" in allocators else None
    return int(ours is not None and any(r[ours].kind != t.ours for t, r in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

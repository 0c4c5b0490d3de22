#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One row on several libraries, round and round, without Python: run_row.sh ROW ROUNDS LIB...
# LIB is a path or soname to preload; glibc for none. Prints the least CPU time of each.
set -euo pipefail
bench="$(dirname "$0")/../build/release/bench/malloc_bench"
[ $# -ge 3 ] || { sed -n 3,4p "$0" >&2; exit 2; }
row=$1 rounds=$2
shift 2
for ((i = 0; i < rounds; ++i)); do
  for lib in "$@"; do
    printf '%s\t' "$(basename "$lib")"
    LD_PRELOAD=${lib#glibc} "$bench" "$row" | sed -E 's/.*"cpu_ns": ([0-9.]+).*/\1/'
  done
done | sort -t$'\t' -k1,1 -k2,2n | awk -F'\t' '$1 != last {printf "%-32s %10.2f ns\n", $1, $2}
  {last = $1}'

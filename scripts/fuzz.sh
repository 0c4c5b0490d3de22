#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the fuzzers' twins (X_fuzz.cc) as libFuzzers under AddressSanitizer and
# UndefinedBehaviorSanitizer, with every check of the check build.
#
#   scripts/fuzz.sh run SECONDS [TARGET...]   each target, from tests/corpora/TARGET on
#   scripts/fuzz.sh merge [TARGET...]         tests/corpora/TARGET: what out/fuzz found beyond it
#   scripts/fuzz.sh list                      the targets
#
# New inputs go to out/fuzz/TARGET; one that fails to out/fuzz/TARGET-crash-... and, once mended,
# by hand to tests/corpora/TARGET, where `make test` runs it for ever. Exit 1 if any target failed.
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=build/fuzz
OUT=out/fuzz
LARGEST=8192  # bytes of an input: small ones are many, and quick to understand
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

targets() {
  find src -name '*_fuzz.cc' -printf '%f\n' | sed 's/_fuzz\.cc$//' | sort
}

# What LLAMALLOC_CONF a target runs with, one after the other; `-` is none.
configurations() {
  [ "$1" = malloc ] || { echo -; return; }
  cat <<LIST
-
hardened:on
model:contracts/golden/model_v3.safetensors,predict_recheck:4KiB,share_pages_below:0
profile:$OUT/malloc.pb.gz,sample_interval:256,profile_flush:100ms
release_delay:0s,hugepages:off
worker:off
LIST
}

build() {
  mkdir -p build
  { [ -f $BUILD/build.ninja ] || cmake --preset fuzz; } >build/fuzz.log 2>&1 &&
    cmake --build --preset fuzz --target fuzzers >>build/fuzz.log 2>&1 ||
    { tail -30 build/fuzz.log >&2; exit 1; }
}

figure() {  # name, log
  sed -n "s/^stat::$1: *//p" "$2"
}

run_one() {  # target, seconds, configuration
  local target=$1 seconds=$2 conf=$3 log=$OUT/$1.log status=0
  mkdir -p "$OUT/$target" "tests/corpora/$target"
  [ "$conf" = - ] && conf=
  LLAMALLOC_CONF=$conf "$BUILD/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=25 \
    -max_len=$LARGEST -print_final_stats=1 -print_funcs=0 -artifact_prefix="$OUT/$target-" \
    "$OUT/$target" "tests/corpora/$target" >"$log" 2>&1 || status=$?
  printf '%-14s %9s inputs %6s edges  %s%s\n' "$target" \
    "$(figure number_of_executed_units "$log")" \
    "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)" \
    "$([ $status = 0 ] && echo ok || echo "FAILED, see $log")" "${conf:+  ($conf)}"
  return $status
}

run() {  # seconds, target...
  local seconds=$1 failed=0 target conf count
  shift
  build
  for target in "$@"; do
    count=$(configurations "$target" | wc -l)
    while read -r conf; do
      run_one "$target" $(((seconds + count - 1) / count)) "$conf" </dev/null || failed=1
    done < <(configurations "$target")
  done
  return $failed
}

merge() {  # target...
  build
  local target
  for target in "$@"; do
    mkdir -p "$OUT/$target" "tests/corpora/$target"
    "$BUILD/fuzz/${target}_fuzz" -set_cover_merge=1 -use_counters=0 -max_len=$LARGEST \
      "tests/corpora/$target" "$OUT/$target" >"$OUT/$target.log" 2>&1
    du -sb "tests/corpora/$target"
  done
}

verb=${1:-}
[ $# -gt 0 ] && shift
case $verb in
  run)
    if ! [[ ${1:-} =~ ^[0-9]+$ ]]; then
      echo "fuzz.sh run: give the seconds for each target, such as: fuzz.sh run 60" >&2
      exit 2
    fi
    seconds=$1
    shift
    mapfile -t chosen < <([ $# -gt 0 ] && printf '%s\n' "$@" || targets)
    run "$seconds" "${chosen[@]}"
    ;;
  merge)
    mapfile -t chosen < <([ $# -gt 0 ] && printf '%s\n' "$@" || targets)
    merge "${chosen[@]}"
    ;;
  list) targets ;;
  *) sed -n '6,8s/^# *//p' "$0" >&2; exit 2 ;;
esac

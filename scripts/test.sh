#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make test: every stage in order, cheapest first, each timed; stops at the first that fails.
# The last lines are pytest's own summary.
set -euo pipefail
cd "$(dirname "$0")/.."

stage() {  # make target, what it is
  local began=$SECONDS
  printf '\n== %s\n' "$2"
  if ! make --no-print-directory "$1"; then
    printf '\ntest: FAILED in: %s (make %s)\n' "$2" "$1" >&2
    exit 1
  fi
  [ "$1" = test-python ] || printf '== passed in %d s\n' $((SECONDS - began))
}

stage checks "checks: layers, symbols, headers, text, documents, format, lint"
stage test-cpp "C++ tests, check build"
stage test-sanitized "C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer"
stage test-python "Python tests, programs under the library, record-train-run loop"

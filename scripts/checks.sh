#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make checks: runs every check, even after one failed; the exit status says whether any did.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=()

check() {  # name, command...
  local name=$1
  shift
  if "$@"; then echo "check $name: ok"; else echo "check $name: FAILED"; failed+=("$name"); fi
}

check layers .venv/bin/python scripts/check_layers.py
check text .venv/bin/python scripts/check_text.py
check documents .venv/bin/python scripts/generate_docs.py --check
check guards .venv/bin/python scripts/check_guards.py
check headers .venv/bin/python scripts/check_headers.py
check symbols .venv/bin/python scripts/check_symbols.py
check format scripts/format.sh check
if [ ${#failed[@]} -gt 0 ]; then
  echo "checks: failed: ${failed[*]}" >&2
  exit 1
fi

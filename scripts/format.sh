#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/format.sh check|fix: clang-format 19 over C++, ruff (pyproject.toml) over Python.
# The versions are pinned: another one would format the same text differently.
set -euo pipefail
cd "$(dirname "$0")/.."
CLANG_FORMAT=${CLANG_FORMAT:-clang-format-19}
RUFF=.venv/bin/ruff
PYTHON_PATHS=(python lab scripts tests setup.py)

cpp_files() {
  git ls-files -co --exclude-standard '*.h' '*.cc' '*.c' | while read -r file; do
    if [ -f "$file" ]; then echo "$file"; fi
  done
}

if ! "$CLANG_FORMAT" --version 2>/dev/null | grep -q 'version 19\.'; then
  echo "format: clang-format 19 is needed (Debian package clang-format-19; make setup)" >&2
  exit 1
fi
case ${1:-} in
  check)
    status=0
    cpp_files | xargs -r "$CLANG_FORMAT" --dry-run -Werror --style=file || status=1
    "$RUFF" check -q "${PYTHON_PATHS[@]}" || status=1
    "$RUFF" format -q --check "${PYTHON_PATHS[@]}" || status=1
    [ $status = 0 ] || echo "format: make format mends most of it" >&2
    exit $status
    ;;
  fix)
    cpp_files | xargs -r "$CLANG_FORMAT" -i --style=file
    "$RUFF" check -q --fix "${PYTHON_PATHS[@]}" || true
    "$RUFF" format -q "${PYTHON_PATHS[@]}"
    ;;
  *)
    echo "usage: scripts/format.sh check|fix" >&2
    exit 2
    ;;
esac

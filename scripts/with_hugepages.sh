#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# with_hugepages.sh SETTING COMMAND...: runs the command while the system's transparent huge pages
# are set to always, madvise or never, and puts the setting back, also after an interrupt. The
# setting holds for every process of the system. Needs root only if it is another one now.
set -euo pipefail
file=${TRANSPARENT_HUGEPAGE:-/sys/kernel/mm/transparent_hugepage/enabled}

stop() {
  echo "with_hugepages.sh: $*" >&2
  exit 2
}

case ${1:-} in
  always | madvise | never) wanted=$1 ;;
  *) stop "the setting is '${1:-}'; give always, madvise or never" ;;
esac
shift
[ $# -gt 0 ] || stop "no command; give one after the setting"
[ -r "$file" ] || stop "$file is missing: this kernel has no transparent huge pages"
exec {lock}<"$file"
flock -n "$lock" || stop "it runs already; two at once would not put back what was there"
before=$(sed 's/.*\[\(.*\)\].*/\1/' "$file")

if [ "$before" != "$wanted" ]; then
  [ -w "$file" ] || stop "$file cannot be written; run as root"
  trap 'printf "%s\n" "$before" >"$file"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  printf '%s\n' "$wanted" >"$file"
fi
"$@" {lock}<&-

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what a make target needs on Debian 12, and nothing that is already there.
#
#   scripts/setup.sh packages GROUP...   Debian packages: build, demo, test, browser, live,
#                                        bench, agreement, workloads
#   scripts/setup.sh python              .venv with the package llamalloc, editable
#   scripts/setup.sh tensorflow          TensorFlow in a Python environment of its own (1.6 GB)
#   scripts/setup.sh list GROUP...       the packages that are missing, one line
#
# Idempotent: a second run asks dpkg and changes nothing. No service is left running or enabled.
set -euo pipefail
cd "$(dirname "$0")/.."

# group | package | satisfied as well by this command, file or `import` of Python | what for
packages() {
  cat <<'TABLE'
build|g++|g++|compiles the library
build|cmake|cmake|configures the build
build|ninja-build|ninja|runs the build
build|libgtest-dev|/usr/include/gtest/gtest.h|C++ tests
build|libzstd-dev|/usr/include/zstd.h|compresses traces
build|python3|/usr/bin/python3|the command llamalloc
build|python3-venv|import ensurepip, venv|its own Python environment, .venv
demo|redis-server|-|the server that the demo records and runs
demo|redis-tools|-|redis-benchmark and redis-cli
demo|libjemalloc2|-|peer: jemalloc
demo|libmimalloc2.0|-|peer: mimalloc
demo|libtcmalloc-minimal4|-|peer: gperftools tcmalloc
test|redis-server|-|runs under the library
test|redis-tools|-|loads it
test|libmimalloc2.0|-|a second allocator to see the tests themselves right
test|clang-19|-|runs under the library
test|libclang-rt-19-dev|-|the fuzzers' runtime and sanitizers
test|clang-format-19|-|C++ format check
test|sqlite3|-|runs under the library
test|bind9-dnsutils|dig|runs under the library, though it is made for jemalloc
test|nginx-light|/usr/sbin/nginx|runs under the library
test|git|git|runs under the library
test|perl|perl|runs under the library
test|xz-utils|xz|runs under the library
test|golang-go|go|builds the public pprof tool that opens our profiles
test|graphviz|dot|pprof -svg
test|valgrind|valgrind|counts instructions of the fast path
test|strace|strace|sees what the library opens
browser|chromium|chromium|opens the heap map
live|prometheus|prometheus|scrapes a loaded server; promtool checks the metrics
live|redis-server|-|the server under load
live|redis-tools|-|loads it
live|golang-go|go|go tool pprof opens the profiles
bench|redis-server|-|measured end to end
bench|redis-tools|-|loads it
bench|clang-19|-|measured end to end
bench|z3|z3|measured end to end
bench|sqlite3|-|measured end to end
bench|libjemalloc2|-|peer: jemalloc
bench|libmimalloc2.0|-|peer: mimalloc
bench|libtcmalloc-minimal4|-|peer: gperftools tcmalloc
bench|cargo|cargo|brings the sources of the other peers
bench|make|make|builds one of them
bench|valgrind|valgrind|counts instructions
agreement|redis-server|-|recorded, then replayed and simulated
agreement|redis-tools|-|loads it
agreement|mariadb-server-core|-|recorded likewise
agreement|mariadb-client-core|-|loads it
agreement|clang-19|-|recorded likewise
agreement|g++|-|the headers that it compiles
workloads|redis-server|-|recipes redis and redis-mixed
workloads|redis-tools|-|redis-benchmark
workloads|nginx-light|/usr/sbin/nginx|recipe nginx
workloads|mariadb-server-core|-|recipe mariadb: mariadbd and mariadb-install-db
workloads|mariadb-client-core|-|the SQL client that loads it
workloads|librocksdb-dev|-|recipe rocksdb
workloads|clang-19|-|recipe clang
workloads|clangd-19|-|recipe clangd
workloads|z3|-|recipe z3
workloads|libcpp-httplib-dev|-|recipe images: HTTP in front of OpenCV
workloads|libopencv-imgproc-dev|-|recipe images: filters and scaling
workloads|libopencv-imgcodecs-dev|-|recipe images: JPEG and PNG
workloads|libjemalloc2|-|recipe swing: peer
workloads|libmimalloc2.0|-|recipe swing: peer
workloads|libtcmalloc-minimal4|-|recipe swing: peer
workloads|binutils|ld.gold|lab.sites: folds equal functions
workloads|ruby|ruby|lab.sites: a cache with threads
TABLE
}

installed() {  # package, command, file or import
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] && return 0
  case $2 in
    -) return 1 ;;
    /*) [ -e "$2" ] ;;
    import*) /usr/bin/python3 -c "$2" 2>/dev/null ;;
    *) command -v "$2" >/dev/null ;;
  esac
}

missing() {  # group...
  local group package other reason
  while IFS='|' read -r group package other reason; do
    [[ " $* " == *" $group "* ]] || continue
    installed "$package" "$other" || printf '%s\t%s\n' "$package" "$reason"
  done < <(packages) | sort -u -k1,1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif [ -t 0 ]; then sudo "$@"
  else sudo -n "$@"; fi
}

can_be_root() {
  [ "$(id -u)" = 0 ] && return
  command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }
}

# Ends with what is missing and the cure, where we cannot install it ourselves.
need_installer() {  # lines of missing, package...
  local lines=$1 cure
  shift
  if ! command -v apt-get >/dev/null; then
    cure="This is not Debian: install the counterparts of these packages, and run make again."
  elif ! can_be_root; then
    cure="This user is not root and has no sudo. Run as root:"
    cure+=" apt-get install --no-install-recommends $*"
  else
    return 0
  fi
  { echo "setup: missing:"; listed "$lines"; echo "setup: $cure"; } >&2
  exit 1
}

listed() {  # lines of missing
  sed 's/^/  /' <<<"$1" | expand -t 28
}

# A service's package starts the service; policy-rc.d (exit 101) is Debian's way to say no.
POLICY=/usr/sbin/policy-rc.d
forbid_services() {
  [ -e $POLICY ] && return
  printf '#!/bin/sh\nexit 101\n' | as_root tee $POLICY >/dev/null
  as_root chmod 755 $POLICY
  trap 'as_root rm -f $POLICY' EXIT
}

disable_services() {  # package...: not started at the next boot either
  [ -d /run/systemd/system ] || return 0
  local package
  for package in "$@"; do
    case $package in
      redis-server) as_root systemctl disable -q redis-server || true ;;
      prometheus) as_root systemctl disable -q prometheus || true ;;
      nginx-light) as_root systemctl disable -q nginx || true ;;
    esac
  done
}

install_packages() {  # group...
  local lines names
  lines=$(missing "$@")
  [ -n "$lines" ] || return 0
  mapfile -t names < <(cut -f1 <<<"$lines")
  need_installer "$lines" "${names[@]}"
  echo "setup: installing ${#names[@]} Debian packages:"
  listed "$lines"
  forbid_services
  as_root apt-get update -q >/dev/null || echo "setup: apt-get update complained; going on" >&2
  if ! as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
    "${names[@]}" </dev/null >build/apt.log 2>&1; then
    tail -5 build/apt.log >&2
    echo "setup: apt-get could not install them (whole log: build/apt.log). Needed: Debian 12" >&2
    echo "setup: (bookworm) with its main archive. By hand: apt-get install ${names[*]}" >&2
    exit 1
  fi
  disable_services "${names[@]}"
}

install_python() {
  if ! /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup: /usr/bin/python3 is older than 3.11; Debian 12 or newer is needed" >&2
    exit 1
  fi
  if ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    /usr/bin/python3 -m venv --clear .venv
  fi
  echo "setup: installing the Python packages of pyproject.toml into .venv"
  if ! .venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]'; then
    echo "setup: pip could not install them (its message is above). It needs a package index:" >&2
    echo "setup: check the network, or point PIP_INDEX_URL to a mirror, and run make again" >&2
    exit 1
  fi
}

# Pinned, so that recipe and traces stay comparable. The workload tensorflow needs it, nothing else.
install_tensorflow() {
  local home=build/workloads/tensorflow
  [ -x $home/bin/python ] || /usr/bin/python3 -m venv $home
  echo "setup: installing tensorflow-cpu into $home"
  if ! $home/bin/python -m pip install -q --disable-pip-version-check tensorflow-cpu==2.21.0; then
    echo "setup: pip could not install it (its message is above); it needs a package index and" >&2
    echo "setup: 1.6 GB of disk" >&2
    exit 1
  fi
}

mkdir -p build
verb=${1:-}
[ $# -gt 0 ] && shift
case $verb in
  packages) install_packages "$@" ;;
  python) install_python ;;
  tensorflow) install_tensorflow ;;
  list) missing "$@" | cut -f1 | paste -sd' ' ;;
  *) sed -n '5,8s/^# *//p' "$0" >&2; exit 2 ;;
esac

# SPDX-License-Identifier: Apache-2.0
# Everything a visitor or a contributor runs. Each target brings its own set-up, once: stamps in
# build/stamps remember what is installed. `make` alone teaches.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

PYTHON := .venv/bin/python
STAMPS := build/stamps
export PYTHONDONTWRITEBYTECODE := 1

BENCH_ARGS ?=
DEMO_ARGS ?=
PAPER_ARGS ?=
LIVE_ARGS ?=
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?=
STRESS_MINUTES ?= 30
STRESS_NAMES ?=
THP ?= always

.PHONY: help setup build wheel demo bench agreement live-proof paper test test-thp test-cpp \
  test-sanitized test-python test-browser checks lint format docs sanitize fuzz stress clean \
  distclean

help:
	@echo "llamalloc: a malloc that learns how long objects live"
	@echo
	@echo "  make demo      record, learn and run Redis beside other allocators; out/demo/report.html"
	@echo "                 (DEMO_ARGS=\"--peers all\" two more, DEMO_ARGS=\"--help\" the choices)"
	@echo "  make bench     speed and memory beside eight peers; out/bench/report.html (half an hour;"
	@echo "                 BENCH_ARGS=\"--quick\" a few minutes, BENCH_ARGS=\"--help\" the choices)"
	@echo "  make test      every test and check (about 20 minutes on two cores, set-up included)"
	@echo "  make test-thp  the same with huge pages THP=always, madvise or never (root; puts it back)"
	@echo "  make build     build/release/libllamalloc.so and .venv/bin/llamalloc"
	@echo "  make wheel     out/wheel/*.whl: the command with library and tools, for pip install"
	@echo
	@echo "  make setup     only the installation: Debian packages and .venv"
	@echo "  make checks    layers, symbols, headers, text, generated documents, format, lint"
	@echo "  make test-cpp  C++ tests of the check build;  make test-python  the Python tests"
	@echo "  make test-browser   the heap map in Chromium (a large package, not part of make test)"
	@echo "  make sanitize  C++ tests under address + undefined, then under thread"
	@echo "  make fuzz      every fuzzer, FUZZ_SECONDS=60 each (FUZZ_TARGETS=\"heap malloc\": those)"
	@echo "  make agreement the simulator beside the library on five loads (6 minutes)"
	@echo "  make live-proof  Prometheus, pprof, harmful clients look at loaded servers (15 minutes;"
	@echo "                 LIVE_ARGS=\"--help\" the choices)"
	@echo "  make paper     the tables and figures of ASPLOS 2020, docs/paper.md (up to an hour)"
	@echo "  make stress    every configuration under load, STRESS_MINUTES=30 in all"
	@echo "  make format    format C++ and Python in place;  make docs  regenerate docs/*.md tables"
	@echo "  make clean     remove build products;  make distclean  and .venv, out/"
	@echo
	@echo "Made for Debian 12. Root or sudo is needed only to install packages that are missing:"
	@echo "scripts/setup.sh list build names them. The first run needs a network."
	@echo "Try it on a server of yours:  .venv/bin/llamalloc --help"

setup: $(STAMPS)/test $(STAMPS)/python
	@echo "setup: complete"

# Each group brings the ones before it, so that one call of apt does for all.
$(STAMPS)/build: GROUPS := build
$(STAMPS)/demo: GROUPS := build demo
$(STAMPS)/test: GROUPS := build demo test
$(STAMPS)/bench: GROUPS := build bench
$(STAMPS)/agreement: GROUPS := build agreement
$(STAMPS)/browser: GROUPS := build browser
$(STAMPS)/live: GROUPS := build live
$(STAMPS)/paper: GROUPS := build bench workloads
$(STAMPS)/build $(STAMPS)/demo $(STAMPS)/test $(STAMPS)/bench $(STAMPS)/agreement \
  $(STAMPS)/paper $(STAMPS)/browser $(STAMPS)/live: scripts/setup.sh
	@scripts/setup.sh packages $(GROUPS)
	@mkdir -p $(STAMPS) && touch $(GROUPS:%=$(STAMPS)/%)

$(STAMPS)/python: pyproject.toml setup.py VERSION scripts/setup.sh $(STAMPS)/build
	@scripts/setup.sh python
	@touch $@

.venv/bin/python: $(STAMPS)/python
	@[ -x $@ ] || scripts/setup.sh python

# preset -> configured and built; quiet when there is nothing to do
define cmake_build
	@[ -f build/$(1)/build.ninja ] || cmake --preset $(1) >build/$(1).log || \
	  { cat build/$(1).log; exit 1; }
	@cmake --build --preset $(1) $(2)
endef

build: $(STAMPS)/build .venv/bin/python
	$(call cmake_build,release,--target llamalloc llamalloc_static llamalloc_trace_preload \
	  llamalloc-trace llamalloc-simulate llamalloc-replay llamalloc-generate)
	@echo "build: build/release/libllamalloc.so and .venv/bin/llamalloc are ready"

demo: $(STAMPS)/demo build
	$(PYTHON) -m lab.demo $(DEMO_ARGS)

bench: $(STAMPS)/bench build
	$(call cmake_build,release,--target malloc_bench count_calls)
	@$(PYTHON) -m lab.bench $(BENCH_ARGS)

agreement: $(STAMPS)/agreement build
	@$(PYTHON) -m lab.agreement

live-proof: $(STAMPS)/live build
	$(call cmake_build,release,--target live_load)
	@$(PYTHON) -m lab.live $(LIVE_ARGS)

paper: $(STAMPS)/paper build
	@scripts/setup.sh tensorflow
	$(call cmake_build,release,--target malloc_bench evaluator_bench)
	@$(PYTHON) -m lab.paper --page docs/paper.md $(PAPER_ARGS)

test: $(STAMPS)/test build
	@scripts/test.sh

test-thp:
	@scripts/with_hugepages.sh $(THP) $(MAKE) --no-print-directory test

# C++ tests of any preset; CC and CXX of the environment choose the compiler of a new build folder.
ctest-%: $(STAMPS)/build
	$(call cmake_build,$*,)
	@ctest --preset $*

test-cpp: ctest-debug

test-sanitized: ctest-sanitize

test-python: $(STAMPS)/test build
	@$(PYTHON) -m pytest -m machine tests --ignore=tests/browser
	@$(PYTHON) -m pytest -m "not machine" -n 3 --dist loadfile --durations 12 \
	  python/tests tests --ignore=tests/browser

# The heap map in a real browser: Chromium is large, so it is no part of `test`.
test-browser: $(STAMPS)/browser build
	@$(PYTHON) -m pytest tests/browser

sanitize: ctest-sanitize ctest-tsan

wheel: build
	@$(PYTHON) -m pip wheel -q --disable-pip-version-check --no-deps -w out/wheel .
	@echo "wheel: $$(ls -t out/wheel/*.whl | head -1)"

fuzz: $(STAMPS)/test
	@scripts/fuzz.sh run $(FUZZ_SECONDS) $(FUZZ_TARGETS)

stress: build
	$(call cmake_build,debug,--target llamalloc)
	@$(PYTHON) tests/servers/stress_all.py $(STRESS_MINUTES) $(STRESS_NAMES)

checks: $(STAMPS)/test build
	@scripts/checks.sh

lint: checks

format: $(STAMPS)/test .venv/bin/python
	@scripts/format.sh fix

docs: .venv/bin/python
	@$(PYTHON) scripts/generate_docs.py

clean:
	rm -rf build/release build/debug build/peers build/sanitize build/asan build/ubsan build/tsan \
	  build/fuzz build/tests build/wheel build/native out/fuzz out/wheel

distclean: clean
	rm -rf build .venv out

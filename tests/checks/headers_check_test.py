# SPDX-License-Identifier: Apache-2.0
"""scripts/check_headers.py: a header that leans on its includer fails."""

from tree import run_check, write

GOOD = {
    "src/base/units.h": "#pragma once\n#include <cstdint>\ninline uint32_t one() { return 1; }\n",
    "src/heap/span.h": '#pragma once\n#include "base/units.h"\ninline auto f() { return one(); }\n',
    "include/llamalloc/llamalloc.h": "#pragma once\nint llamalloc_act(const char*, const char*);\n",
}


def test_headers_that_stand_alone_pass(tmp_path):
    assert run_check("check_headers.py", write(tmp_path, GOOD)) == (0, "")


def test_header_that_misses_an_include_fails(tmp_path):
    bad = {"src/heap/bad.h": "#pragma once\nuint64_t size_of(Span*);\n"}
    status, errors = run_check("check_headers.py", write(tmp_path, {**GOOD, **bad}))
    assert status == 1
    assert "bad.h: does not compile alone" in errors
    assert "units.h" not in errors


def test_public_header_must_be_c(tmp_path):
    bad = {"include/llamalloc/llamalloc.h": "#pragma once\nint act(const char* verb = nullptr);\n"}
    status, errors = run_check("check_headers.py", write(tmp_path, {**GOOD, **bad}))
    assert status == 1
    assert "llamalloc.h: does not compile alone" in errors

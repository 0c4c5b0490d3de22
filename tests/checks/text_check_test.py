# SPDX-License-Identifier: Apache-2.0
"""scripts/check_text.py: one crafted file for every rule."""

import pytest
from tree import SPDX, run_check, write

GOOD = {
    "src/a.cc": "// " + SPDX + "int a;\n",
    "scripts/b.sh": "#!/bin/bash\n# " + SPDX,
    "contracts/wide.def": "// " + SPDX + "ROW(" + "x" * 120 + ")\n",
    "docs/c.md": "See /tmp/out and https://example.org/work/home/index.html\n",
    "notes.bin": "/ho" + "me/someone\n",
}


def test_clean_tree_passes(tmp_path):
    assert run_check("check_text.py", write(tmp_path, GOOD)) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("src/bad.cc", "int a;\n", "bad.cc:1: no line `SPDX"),
        ("src/bad.h", "// " + SPDX + "// " + "TO" + "DO: later\n", "unfinished work"),
        ("src/bad.py", "# " + SPDX + "# FIX" + "ME\n", "unfinished work"),
        ("src/bad.cc", "// " + SPDX + "#if " + "0\nint a;\n", "switched off"),
        ("src/bad.cc", "// " + SPDX + "int " + "x" * 97 + "\n", "bad.cc:2: 101 columns"),
        ("src/bad.cc", "// " + SPDX + "int a;\n" * 600, "more than 600 lines"),
        ("src/bad.cc", "// " + SPDX + 'auto p = "/wor' + 'k/main";\n', "machine's own path"),
        ("docs/bad.md", "Run /ro" + "ot/llamalloc/run\n", "bad.md:1: a machine's own path"),
        ("CMakeLists.txt", "# " + SPDX + "include(/ho" + "me/me/x.cmake)\n", "own path"),
    ],
)
def test_each_rule_fails(tmp_path, name, text, message):
    status, errors = run_check("check_text.py", write(tmp_path, {**GOOD, name: text}))
    assert status == 1
    assert message in errors
    assert len(errors.splitlines()) == 1

# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layers.py: quiet on downward edges, loud on every other one."""

import pytest
from tree import run_check, write

GOOD = {
    "src/base/units.h": "#include <cstdint>\n",
    "src/heap/span.cc": '#include "base/units.h"\n#include "os/pages.h"\n#include "heap/span.h"\n',
    "src/heap/span_test.cc": '#include <pthread.h>\n#include "base/units.h"\n',
    "src/os/linux/pages.cc": "#include <sys/mman.h>\n",
    "python/llamalloc/cli/train.py": "from llamalloc.lstm import Model\nimport llamalloc.train\n",
}


def test_downward_edges_pass(tmp_path):
    assert run_check("check_layers.py", write(tmp_path, GOOD)) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("src/heap/bad.cc", '#include "policy/place.h"\n', "heap is layer 3, policy is layer 4"),
        ("src/heap/bad.h", '  #  include "predict/cache.h"\n', "predict is layer 3"),
        ("src/heap/bad_test.cc", '#include "runtime/allocator.h"\n', "runtime is layer 5"),
        ("src/heap/bad.cc", "#include <sys/mman.h>\n", "<sys/mman.h>: a platform header"),
        ("src/os/bad.cc", "#include <linux/futex.h>\n", "only os/linux may know the platform"),
        ("src/heap/bad.cc", '#include "span.h"\n', "not a room"),
        ("src/attic/bad.cc", "#include <cstdint>\n", "room attic has no layer"),
        ("python/llamalloc/tokens.py", "from llamalloc import train\n", "imports train"),
        ("python/llamalloc/tokens.py", "import llamalloc.cli.record\n", "imports cli"),
        ("python/llamalloc/labels.py", "from .lstm import Model\n", "imports lstm"),
        (
            "python/llamalloc/train.py",
            "def f():\n    from llamalloc.cli import app\n",
            "imports cli",
        ),
        ("python/llamalloc/attic.py", "", "attic has no layer"),
    ],
)
def test_other_edges_fail(tmp_path, name, text, message):
    status, errors = run_check("check_layers.py", write(tmp_path, {**GOOD, name: text}))
    assert status == 1
    assert message in errors
    assert name in errors

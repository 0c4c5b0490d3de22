# SPDX-License-Identifier: Apache-2.0
"""scripts/check_layers.py: quiet on downward edges, loud on every other one."""

import pytest
from tree import run_check, write

GOOD = {
    "src/base/units.h": "#include <cstdint>\n",
    "src/heap/span.cc": '#include "base/units.h"\n#include "os/pages.h"\n#include "heap/span.h"\n',
    "src/heap/span_test.cc": '#include <pthread.h>\n#include "base/units.h"\n',
    "src/learning/gate.h": '#include "os/arena.h"\n#include "os/pages.h"\n',
    "src/learning/gate_test.cc": '#include "os/fake/fake_pages.h"\n#include <unistd.h>\n',
    "src/state_file/state_file.h": '#include "os/file_lock.h"\n#include "learning/gate.h"\n',
    "src/os/linux/pages.cc": "#include <sys/mman.h>\n",
    "python/llamalloc/__init__.py": "from llamalloc.formats.places import version\n",
    "python/llamalloc/formats/places.py": "from llamalloc import __version__\n",
    "python/llamalloc/learning/fit.py": "from llamalloc.formats import model_file\n",
    "python/llamalloc/learning/train.py": "from llamalloc.learning.fit import Model\n",
    "python/llamalloc/cli/train.py": "import llamalloc.learning.train\n",
    "lab/redis.py": "from llamalloc.running import procmem\n",
    "lab/demo/main.py": "from lab import redis\nfrom lab.demo import page\n",
}


def test_downward_edges_pass(tmp_path):
    assert run_check("check_layers.py", write(tmp_path, GOOD)) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("src/heap/bad.cc", '#include "release/plan.h"\n', "heap is layer 4, release is layer 5"),
        ("src/pages/bad.cc", '#include "heap/span.h"\n', "pages is layer 3, heap is layer 4"),
        ("src/heap/bad.h", '  #  include "predict/cache.h"\n', "predict is layer 4"),
        ("src/heap/bad_test.cc", '#include "runtime/allocator.h"\n', "runtime is layer 8"),
        ("src/heap/bad.cc", "#include <sys/mman.h>\n", "<sys/mman.h>: a platform header"),
        ("src/os/bad.cc", "#include <linux/futex.h>\n", "only os/linux may know the platform"),
        ("src/heap/bad.cc", '#include "span.h"\n', "not a room"),
        ("src/learning/bad.cc", '#include "os/file_image.h"\n', "learning makes no system call"),
        ("src/learning/bad.h", '#include "os/symbols.h"\n', "let the caller pass in what it needs"),
        ("src/learning/bad.cc", "#include <fcntl.h>\n", "<fcntl.h>: a platform header"),
        ("src/learning/bad.cc", "#include <unistd.h>\n", "<unistd.h>: a platform header"),
        ("src/learning/bad.cc", "#include <sys/mman.h>\n", "<sys/mman.h>: a platform header"),
        ("src/learning/bad.cc", '#include "state_file/state_file.h"\n', "state_file is layer 7"),
        ("src/attic/bad.cc", "#include <cstdint>\n", "room attic has no layer"),
        (
            "python/llamalloc/formats/tokens.py",
            "from llamalloc import learning\n",
            "imports llamalloc.learning (llamalloc.learning is layer 2)",
        ),
        (
            "python/llamalloc/formats/tokens.py",
            "import llamalloc.cli.record\n",
            "imports llamalloc.cli",
        ),
        ("python/llamalloc/learning/x.py", "from llamalloc.running import launch\n", "is layer 2"),
        (
            "python/llamalloc/formats/x.py",
            "from ..learning import fit\n",
            "imports llamalloc.learn",
        ),
        (
            "python/llamalloc/learning/train.py",
            "def f():\n    from llamalloc.cli import app\n",
            "imports llamalloc.cli",
        ),
        (
            "python/llamalloc/learning/fit.py",
            "from . import train\n",
            "a cycle: llamalloc.learning.",
        ),
        ("python/llamalloc/attic.py", "", "llamalloc.attic has no layer"),
        ("python/llamalloc/attic/x.py", "", "llamalloc.attic.x has no layer"),
        ("python/llamalloc/cli/demo.py", "from lab import redis\n", "imports lab.redis"),
        ("python/llamalloc/cli/demo.py", "import lab.demo.main\n", "imports lab.demo.main"),
        ("lab/redis.py", "from lab.demo import main\n", "lab.demo is layer 6"),
        ("lab/bench/x.py", "from lab.demo import main\n", "lab.bench is layer 6"),
    ],
)
def test_other_edges_fail(tmp_path, name, text, message):
    status, errors = run_check("check_layers.py", write(tmp_path, {**GOOD, name: text}))
    assert status == 1
    assert message in errors
    assert name in errors

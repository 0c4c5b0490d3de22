# SPDX-License-Identifier: Apache-2.0
"""The table of docs/compatibility.md names the traps as tests/traps/trap_list.py does."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/traps"))

from trap_list import TRAPS  # noqa: E402

APART = ("idle:", "static TLS:")  # these have a table of figures, or none


def test_the_table_lists_every_trap_in_order():
    lines = (ROOT / "docs/compatibility.md").read_text(encoding="utf-8").splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| trap | what |")) + 2
    last = next(i for i in range(first, len(lines)) if not lines[i].startswith("|"))
    documented = [tuple(line.split(" | ")[:2]) for line in lines[first:last]]
    listed = [(f"| {t.name}", t.what) for t in TRAPS if not t.name.startswith(APART)]
    assert documented == listed

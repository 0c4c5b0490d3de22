# SPDX-License-Identifier: Apache-2.0
"""Writes contracts/golden/ anew: `python python/tests/make_golden.py [tokens] [profile] [model]`.

Golden files change only with their contract; the tests then say which twin lags behind.
"""

import json
import sys
from pathlib import Path

from support.token_cases import CASES

from llamalloc import tokens

GOLDEN = Path(__file__).resolve().parents[2] / "contracts" / "golden"


def make_tokens() -> None:
    """tokens.json: one case a line, ASCII only."""
    cases = [{"frames": f, "size": s, "tokens": tokens.tokens(f, s)} for f, s in CASES]
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    (GOLDEN / "tokens.json").write_text(f"[\n{lines}\n]\n", encoding="ascii")


MAKERS = {"tokens": make_tokens}

if __name__ == "__main__":
    for name in sys.argv[1:] or MAKERS:
        MAKERS[name]()

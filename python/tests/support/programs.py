# SPDX-License-Identifier: Apache-2.0
"""Small C programs for tests, compiled where they are needed."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

TRIVIAL = "int main(void) { return 0; }"
OWN_MALLOC = """
#include <stdlib.h>
static char pool[1 << 16]; static size_t used;
void *malloc(size_t n) { void *p = pool + used; used += (n + 15) & ~15ul; return p; }
void free(void *p) { (void)p; }
int main(void) { return malloc(1) == 0; }
"""


def compiled(path: Path, source: str, *flags: str, libraries: Sequence[Path] = ()) -> Path:
    """`source` compiled into the program (or with -shared the library) `path`."""
    command = ["gcc", "-O1", "-fno-builtin", *flags, "-x", "c", "-", "-x", "none"]
    command += [*map(str, libraries), "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True, capture_output=True)
    return path

# SPDX-License-Identifier: Apache-2.0
"""The page: an introduction, and a section for each exhibit that was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.paper.section import Exhibit

Say = Callable[[str], None]
PICTURES = "img"
_INTRODUCTION = """# The paper's tables and figures

llamalloc comes from [*Learning-based Memory Allocation for C++ Server Workloads*][paper]
(ASPLOS 2020). This page shows the tables and figures of that paper, measured with llamalloc. One
command measures everything, in up to an hour, and writes the page:
```
make paper
```
Mesh has no package: its column is there if `PAPER_ARGS="--mesh LIBRARY"` names a build of it.

[paper]: https://doi.org/10.1145/3373376.3378525
"""


def write(found: dict[Exhibit, dict[str, Any]], path: Path) -> None:
    """The Markdown file, and its pictures in PICTURES beside it."""
    folder = path.parent / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    parts = [_INTRODUCTION]
    for one, document in found.items():
        section = one.show(document["results"])
        section.pictures = {f"paper_{stem}": png for stem, png in section.pictures.items()}
        for stem, png in section.pictures.items():
            (folder / f"{stem}.png").write_bytes(png)
        parts.append(section.markdown(PICTURES) + f"\n{_measured_on(document['machine'])}\n")
    path.write_text("\n".join(parts))


def _measured_on(machine: dict[str, str]) -> str:
    facts = ("cpu", "kernel", "transparent huge pages", "time")
    return "Measured on: " + ", ".join(machine[fact] for fact in facts if fact in machine) + "."

# SPDX-License-Identifier: Apache-2.0
"""Where the package finds what is not Python: contracts/, VERSION, the library and the tools.

In a checkout they are the files of the checkout. A wheel carries copies inside the package:

    llamalloc/_contracts/   contracts/*.def and *.md
    llamalloc/_native/      VERSION, lib/libllamalloc.so, lib/libllamalloc_trace.so, bin/llamalloc-*
"""

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parents[1]
NATIVE = PACKAGE / "_native"
LIBRARY_FOLDERS = (
    CHECKOUT / "build" / "release",
    NATIVE / "lib",
    Path("/usr/local/lib"),
    Path("/usr/lib/x86_64-linux-gnu"),
    Path("/usr/lib64"),
)


def contracts_folder() -> Traversable:
    """The folder of contracts/*.def."""
    checkout = CHECKOUT / "contracts"
    if (checkout / "lifetime_classes.def").is_file():
        return checkout
    return resources.files("llamalloc._contracts")


def version() -> str:
    """The first line of the file VERSION, which CMake reads too."""
    packed = NATIVE / "VERSION"
    return (packed if packed.is_file() else CHECKOUT / "VERSION").read_text("utf-8").strip()


def tool_folders(library_folder: Path) -> tuple[Path, ...]:
    """Where the tools of a library are: beside it in a build, in PREFIX/bin when installed.

    PREFIX/lib and Debian's PREFIX/lib/x86_64-linux-gnu are one and two levels below the prefix.
    """
    parents = library_folder.parents
    return (library_folder, *(parent / "bin" for parent in parents[:2]))

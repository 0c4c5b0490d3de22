# SPDX-License-Identifier: Apache-2.0
"""`llamalloc demo` (hidden): the Redis comparison, as `make demo` runs it. See llamalloc.demo."""

from __future__ import annotations

import typer


def demo(context: typer.Context) -> int:
    """Run Redis on several allocators and write out/demo/report.html."""
    from llamalloc.demo.main import main

    return main(context.args)

# SPDX-License-Identifier: Apache-2.0
"""`python -m llamalloc.cli`: the command where its console script is not in PATH."""

from llamalloc.cli import main

main()

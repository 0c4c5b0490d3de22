# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.workloads`: see main.py."""

import sys

from lab.workloads.main import main

if __name__ == "__main__":
    sys.exit(main())

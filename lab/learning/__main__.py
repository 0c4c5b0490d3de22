# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.learning`."""

from lab.learning.main import main

if __name__ == "__main__":
    raise SystemExit(main())

# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.measuring`."""

from lab.measuring.main import main

if __name__ == "__main__":
    raise SystemExit(main())

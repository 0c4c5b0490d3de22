# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.sites`."""

from lab.sites.main import main

if __name__ == "__main__":
    raise SystemExit(main())

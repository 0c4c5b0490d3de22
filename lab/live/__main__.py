# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.live`: what `make live-proof` calls once everything is installed and built."""

from lab.live.main import main

if __name__ == "__main__":
    raise SystemExit(main())

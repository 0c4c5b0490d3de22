# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.bench`: what `make bench` calls once everything is installed and built."""

from lab.bench.main import main

if __name__ == "__main__":
    raise SystemExit(main())

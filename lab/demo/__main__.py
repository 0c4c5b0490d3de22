# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.demo`: what `make demo` calls once everything is installed and built."""

from lab.demo.main import main

if __name__ == "__main__":
    raise SystemExit(main())

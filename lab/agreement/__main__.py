# SPDX-License-Identifier: Apache-2.0
"""`python -m lab.agreement`: what `make agreement` calls once everything is installed and built."""

from lab.agreement.main import main

if __name__ == "__main__":
    raise SystemExit(main())

# SPDX-License-Identifier: Apache-2.0
"""What every suite needs: what a suite is, how one is run, and what comes of it."""

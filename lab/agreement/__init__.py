# SPDX-License-Identifier: Apache-2.0
"""Does the simulator use as much memory as the library? Five traces, recorded and generated."""

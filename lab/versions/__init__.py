# SPDX-License-Identifier: Apache-2.0
"""How much of what was learned survives another run, another build, another version.

apt -> builds (compilers, stripped or not) -> recording (one load) -> evidence -> predictors
    -> measure -> table
"""

# SPDX-License-Identifier: Apache-2.0
"""Table 2 and figure 10b: another build or version of the same program. By lab.versions."""

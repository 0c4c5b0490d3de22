# SPDX-License-Identifier: Apache-2.0
"""llamalloc's tools: record lifetimes, train a model on them, run a server with it, report.

contracts -> profile -> labels -> dataset -> lstm/train -> model_file, train_report -> cli
"""

__version__ = "0.1.0"

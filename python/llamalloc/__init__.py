# SPDX-License-Identifier: Apache-2.0
"""The command llamalloc: record lifetimes, train a model on them, run a server with it, report.

    cli ---> reporting ---> learning, running ---> formats

A room imports only rooms to its right; learning and running do not know each other.
"""

from llamalloc.formats.places import version

__version__ = version()

# SPDX-License-Identifier: Apache-2.0
"""The experiment of docs/measuring_memory.md: RSS and charge of partly unmapped huge pages.

holder (a process that maps huge pages) <--- experiment (tells it what to do, reads its memory)
                                                  ---> table, picture
"""

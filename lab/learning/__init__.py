# SPDX-License-Identifier: Apache-2.0
"""What learning in process costs running programs whose objects it cannot place better.

loads -> rounds of blind, first and second run -> lab.sites.results -> table
"""

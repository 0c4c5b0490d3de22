# SPDX-License-Identifier: Apache-2.0
"""What measures: the benchmark, the demo, real programs under load. Never part of the wheel.

    places, allocators, launcher, server, redis ---> bench, demo, sites, workloads

The modules here are shared; bench, demo, sites and workloads do not know each other. All of it may
import llamalloc, and nothing of llamalloc imports it.
"""

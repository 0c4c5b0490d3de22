# SPDX-License-Identifier: Apache-2.0
"""RocksDB: workloads/rocksdb/store.cc."""

from __future__ import annotations

from lab.workloads.recipe import Recipe, Session, built


class RocksDb(Recipe):
    """Fill, read, scan, delete and compact, three times."""

    name = "rocksdb"
    title = "a program on librocksdb: fill, read, scan, delete and compact, three times"
    memory = "memtables that die by flush, cached blocks that die by eviction, buffers of all sizes"
    packages = ("librocksdb-dev", "g++", "cmake", "ninja-build")
    programs = ("/usr/include/rocksdb/db.h", "cmake", "ninja")
    seconds = 30

    def command(self, session: Session) -> list[str]:
        """A database in the run's own folder."""
        keys = session.scaled(100_000, 1_000)
        return [str(built("store")), str(session.folder / "db"), str(keys), str(session.seed)]

# SPDX-License-Identifier: Apache-2.0
"""The recipes, one file a program; `ALL` in the order of the README."""

from __future__ import annotations

from llamalloc.workloads.programs.clang import Clang
from llamalloc.workloads.programs.images import Images
from llamalloc.workloads.programs.mariadb import MariaDb
from llamalloc.workloads.programs.nginx import Nginx
from llamalloc.workloads.programs.redis import Redis
from llamalloc.workloads.programs.redis_mixed import RedisMixed
from llamalloc.workloads.programs.rocksdb import RocksDb
from llamalloc.workloads.programs.swing import Swing
from llamalloc.workloads.programs.tensorflow import TensorFlow
from llamalloc.workloads.programs.wordcount import WordCount
from llamalloc.workloads.programs.z3 import Z3
from llamalloc.workloads.recipe import Recipe, WorkloadError

ALL: tuple[Recipe, ...] = (
    Redis(),
    RedisMixed(),
    Nginx(),
    MariaDb(),
    RocksDb(),
    Clang(),
    Z3(),
    TensorFlow(),
    Images(),
    WordCount(),
    Swing(),
)


def find(name: str) -> Recipe:
    """A recipe by name. Raises WorkloadError, which lists them."""
    for recipe in ALL:
        if recipe.name == name:
            return recipe
    raise WorkloadError(f"no workload {name!r}; there are {', '.join(r.name for r in ALL)}")

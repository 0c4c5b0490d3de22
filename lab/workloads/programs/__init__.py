# SPDX-License-Identifier: Apache-2.0
"""The recipes, one file a program; `ALL` in the order of the README."""

from __future__ import annotations

from lab.workloads.programs.clang import Clang
from lab.workloads.programs.clangd import Clangd
from lab.workloads.programs.images import Images
from lab.workloads.programs.mariadb import MariaDb
from lab.workloads.programs.nginx import Nginx
from lab.workloads.programs.redis import Redis
from lab.workloads.programs.redis_mixed import RedisMixed
from lab.workloads.programs.rocksdb import RocksDb
from lab.workloads.programs.servers import SERVERS
from lab.workloads.programs.swing import Swing
from lab.workloads.programs.tensorflow import TensorFlow
from lab.workloads.programs.waves import Waves
from lab.workloads.programs.wordcount import WordCount
from lab.workloads.programs.z3 import Z3
from lab.workloads.recipe import Recipe, WorkloadError

ALL: tuple[Recipe, ...] = (
    Redis(),
    RedisMixed(),
    Nginx(),
    MariaDb(),
    RocksDb(),
    Clang(),
    Clangd(),
    Z3(),
    TensorFlow(),
    Images(),
    WordCount(),
    Swing(),
    Waves(),
    *SERVERS,
)


def find(name: str) -> Recipe:
    """A recipe by name. Raises WorkloadError, which lists them."""
    for recipe in ALL:
        if recipe.name == name:
            return recipe
    raise WorkloadError(f"no workload {name!r}; there are {', '.join(r.name for r in ALL)}")

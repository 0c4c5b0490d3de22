# SPDX-License-Identifier: Apache-2.0
"""The loads: those of lab.sites whose lives no site tells, real programs of lab.workloads, and its
servers, which are measured where they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.sites.build import LackError
from lab.sites.guards import GUARDS, Guard
from lab.sites.process import Figures
from lab.sites.rows import Runner
from lab.workloads import programs, runner
from lab.workloads.programs import servers
from lab.workloads.runner import Outcome

PROGRAMS = ("waves", "redis-mixed", "mariadb", "nginx", "clangd")
PEAK = 1024  # MiB; a guard takes its share of that
SERVERS = tuple(recipe.name for recipe in servers.SERVERS)
ALL_SERVERS = "servers"  # their name as a whole
Run = Callable[[Runner, str], Figures]


@dataclass(frozen=True)
class Load:
    """`run` takes the row: blind, first, second, ... `make` takes scale and seed; it raises
    LackError where something is not installed. The guards are the same for each seed."""

    name: str
    make: Callable[[float, int], Run]


def all_loads() -> list[Load]:
    """In the order of the table."""
    return [
        *(Load(_short(guard), _guarded(guard)) for guard in GUARDS),
        *(Load(name, _program(name)) for name in (*PROGRAMS, *SERVERS)),
    ]


def chosen(names: str) -> list[Load]:
    """Those named by comma, or all servers; for none all but these. Raises ValueError."""
    known = {load.name: load for load in all_loads()}
    wanted = {name for name in names.split(",") if name} or known.keys() - set(SERVERS)
    if ALL_SERVERS in wanted:
        wanted = wanted - {ALL_SERVERS} | set(SERVERS)
    if unknown := sorted(wanted - known.keys()):
        there_are = ", ".join([*known, ALL_SERVERS])
        raise ValueError(f"no load {', '.join(unknown)}; there are {there_are}")
    return [load for name, load in known.items() if name in wanted]


def _short(guard: Guard) -> str:
    return guard.name.split(",")[0].lower().replace(" ", "-")


def _guarded(guard: Guard) -> Callable[[float], Run]:
    def make(scale: float, seed: int) -> Run:
        command = guard.words(max(1, round(PEAK * scale)))
        return lambda runner, row: runner.run(row, command, guard.environment)

    return make


def _program(name: str) -> Callable[[float], Run]:
    def make(scale: float, seed: int) -> Run:
        recipe = programs.find(name)
        if missing := recipe.missing():
            raise LackError(f"{name}: {', '.join(missing)} not found; see lab.workloads list")

        def run(rows: Runner, row: str) -> Figures:
            conf, statistics = rows.configuration(row)
            how = runner.Options(
                preload=str(rows.library), scale=scale, seed=seed, conf=conf, live=True
            )
            found = figures(runner.run(recipe, how, lambda text: None), recipe.is_server())
            return replace(found, statistics=json.loads(statistics.read_text()))

        return run

    return make


def figures(outcome: Outcome, drops: bool) -> Figures:
    """Of a whole program; after the drop is the end. Not `drops`: it ends by itself. If it says its
    result, it keeps what stays for some seconds. Else it has no drop, and rss and charge are 0,
    since what was seen last before it ended is chance."""
    average = outcome.average_charge
    rss, charge = (outcome.rss, outcome.charge) if drops else outcome.at_rest()
    return Figures(
        live=0,
        rss=rss,
        held=rss,  # with files: what is sampled while it runs is RSS alone
        regions=0,
        charge=None if outcome.charge is None else charge,
        fill=outcome.seconds,
        drop=0.0,
        average=round(outcome.average_rss),
        average_charge=None if average is None else round(average),
        peak_charge=outcome.peak_charge,
        average_live=outcome.average_live,
        cpu=outcome.cpu,
        result=outcome.result,
    )

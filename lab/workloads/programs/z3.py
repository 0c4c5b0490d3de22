# SPDX-License-Identifier: Apache-2.0
"""z3 factors numbers and colours graphs: a generated SMT-LIB 2 file."""

from __future__ import annotations

import random
from collections.abc import Iterator

from lab.workloads.recipe import Recipe, Session


class Z3(Recipe):
    """Incremental problems, each bounded by z3's own count of steps, so that runs repeat."""

    name = "z3"
    title = "z3 on an SMT-LIB 2 file: factor products of bit vectors, colour graphs, schedule jobs"
    memory = "terms and clauses of one problem after the other: rises, and falls at each pop"
    packages = ("z3",)
    programs = ("z3",)
    seconds = 30

    def prepare(self, session: Session) -> None:
        """Writes the problem."""
        text = "\n".join(problems(session.random(), session.scaled(12), session.scale))
        (session.folder / "problem.smt2").write_text(text + "\n")

    def command(self, session: Session) -> list[str]:
        """z3 says sat, unsat or unknown for each problem."""
        return ["z3", str(session.folder / "problem.smt2")]


def problems(numbers: random.Random, count: int, scale: float) -> Iterator[str]:
    """Lines of SMT-LIB 2: `count` problems between push and pop."""
    steps = max(50_000, int(12_000_000 * min(1.0, scale)))
    yield f"(set-option :rlimit {steps})"
    for number in range(count):
        yield "(push 1)"
        kind = (_factor, _colour, _schedule)[number % 3]
        yield from kind(numbers, number)
        yield "(check-sat)"
        yield "(pop 1)"


def _factor(numbers: random.Random, tag: int) -> Iterator[str]:
    bits = 64
    product = (numbers.getrandbits(31) | 1 << 30 | 1) * (numbers.getrandbits(31) | 1 << 30 | 1)
    for name in (f"p{tag}", f"q{tag}"):
        yield f"(declare-const {name} (_ BitVec {bits}))"
        yield f"(assert (bvult (_ bv1 {bits}) {name}))"
        yield f"(assert (bvult {name} (_ bv{1 << 32} {bits})))"
    yield f"(assert (= (bvmul p{tag} q{tag}) (_ bv{product} {bits})))"


def _colour(numbers: random.Random, tag: int) -> Iterator[str]:
    nodes, colours = 250, 5
    for n in range(nodes):
        yield f"(declare-const c{tag}_{n} Int)"
        yield f"(assert (and (<= 1 c{tag}_{n}) (<= c{tag}_{n} {colours})))"
    for _ in range(nodes * 11 // 2):
        a, b = numbers.sample(range(nodes), 2)
        yield f"(assert (not (= c{tag}_{a} c{tag}_{b})))"


def _schedule(numbers: random.Random, tag: int) -> Iterator[str]:
    jobs, machines = 10, 8
    for job in range(jobs):
        for step in range(machines):
            yield f"(declare-const s{tag}_{job}_{step} Int)"
    times = [[numbers.randint(5, 40) for _ in range(machines)] for _ in range(jobs)]
    orders = [numbers.sample(range(machines), machines) for _ in range(jobs)]
    end = max(sum(t) for t in times) * 5 // 3
    for job in range(jobs):
        yield f"(assert (>= s{tag}_{job}_0 0))"
        for step in range(machines):
            after = f"(+ s{tag}_{job}_{step} {times[job][step]})"
            last = step == machines - 1
            yield f"(assert (<= {after} {end if last else f's{tag}_{job}_{step + 1}'}))"
    for machine in range(machines):
        slots = [(j, orders[j].index(machine)) for j in range(jobs)]
        for at, (a, s) in enumerate(slots):
            for b, t in slots[:at]:
                first = f"(<= (+ s{tag}_{a}_{s} {times[a][s]}) s{tag}_{b}_{t})"
                second = f"(<= (+ s{tag}_{b}_{t} {times[b][t]}) s{tag}_{a}_{s})"
                yield f"(assert (or {first} {second}))"

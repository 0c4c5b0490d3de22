# SPDX-License-Identifier: Apache-2.0
"""lab.learning.rate: intervals and verdicts, without a server."""

from __future__ import annotations

import random

import pytest

from lab.learning import rate
from lab.learning.rate import ROWS, Rates, Turn


def _rates(cost: float, noise: float, turns: int = 40) -> Rates:
    """Rows that learn serve `1 - cost` of the requests; each turn has a speed of its own."""
    draw, rates = random.Random(1), Rates()
    for _ in range(turns):
        speed = draw.uniform(500, 1500)
        for row, conf in ROWS.items():
            share = (1 - cost if conf else 1.0) * (1 + draw.uniform(-noise, noise))
            rates.turns[row].append(Turn(speed * share, 1 / (speed * share)))
    return rates


@pytest.mark.parametrize(
    ("cost", "noise", "verdict"),
    [(0.0, 0.01, "reached"), (0.03, 0.01, "MISSED"), (0.01, 0.2, "too noisy to tell")],
)
def test_the_interval_decides(cost: float, noise: float, verdict: str) -> None:
    rates = _rates(cost, noise)
    assert rates.verdict("learns") == verdict
    found = rates.interval("learns", "rate")
    assert found.low < 1 - cost < found.high
    assert rates.interval("learns", "cpu").mean == pytest.approx(1 / found.mean)
    assert verdict in rate.table(rates)


def test_turns_go_on_while_an_interval_is_wide() -> None:
    assert _rates(0.0, 0.001).is_narrow(0.005)
    assert not _rates(0.0, 0.2).is_narrow(0.005)
    assert not _rates(0.0, 0.001, turns=29).is_narrow(0.005), "too few to judge their spread"


def test_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rate.arguments(["--turns", "3"])
    assert "at least 30" in capsys.readouterr().err

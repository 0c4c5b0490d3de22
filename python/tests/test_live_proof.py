# SPDX-License-Identifier: Apache-2.0
"""What `make live-proof` makes of its figures, and its clients that do harm."""

import json
import socket
from pathlib import Path

import pytest

from lab.live.clients import KINDS, Client
from lab.live.harm import Harm
from lab.live.main import arguments
from lab.live.profiles import Opened
from lab.live.prometheus import Scraped
from lab.live.redis_rate import Rates, Round
from lab.live.results import Results
from lab.live.scrapes import Cost
from lab.live.target import Calls


def scraped(**changes) -> Scraped:
    facts = {
        "seconds": 120.0, "scrapes": 119, "failed": 0, "series": 85, "average_ms": 2.0,
        "longest_ms": 9.0, "missing": [], "charge": True, "promtool": "",
        "profiles": [Opened("heap", "", "1MB 100% f")],
    }  # fmt: skip
    return Scraped(**(facts | changes))


def test_a_good_run_has_no_fault(tmp_path: Path):
    harm = Harm(1000)
    for kind in harm.rounds:
        harm.rounds[kind] = [Calls(30, 700, 2_000_000, 10), Calls(50, 900, 4_000_000, 10)]
    rates = Rates(core=0.0004)
    rates.rounds["without"] = [Round(100.0, 8.0, 5.0), Round(110.0, 8.0, 5.0)]
    rates.rounds["once"] = [Round(99.0, 8.1, 5.0), Round(101.0, 8.1, 5.0)]
    rates.rounds["many"] = [Round(90.0, 8.1, 5.0)]
    rates.rounds["elsewhere"] = [Round(100.0, 8.0, 5.0)]
    costs = [Cost("/metrics", 1.2, 0.5, 1.3, 12_000)]
    results = Results({}, harm, 5120, costs, rates, scraped())
    assert results.faults() == []
    table = results.table()
    for part in (
        "40 ns | 800 ns | 3.00 ms",
        "5,120 huge pages",
        "0.040 % of a core",
        "a scrape a second, change | -4.76 % | +1.25 %",
        "by 100 a second | -0.100 % | +0.012 %",
    ):
        assert part in table, table
    results.write(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["costs"][0]["ms"] == 1.2


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"failed": 1}, "1 of 119 scrapes failed"),
        ({"scrapes": 20}, "0 of 20 scrapes failed"),
        ({"missing": ["x"]}, "llamalloc_x is missing"),
        ({"promtool": "no help"}, "promtool: no help"),
        ({"profiles": [Opened("heap", "no such host", "")]}, "pprof heap: no such host"),
    ],
)
def test_what_is_wrong_is_said(changes: dict, fault: str):
    faults = Results({}, scraped=scraped(**changes)).faults()
    assert len(faults) == 1 and fault in faults[0]


def test_a_scrape_that_costs_too_much_is_a_fault():
    assert Results({}, costs=[Cost("/metrics", 1.5, 1.1, 1.5, 1)]).faults()
    assert Results({}, rates=Rates(core=0.002)).faults()
    assert not Results({}, costs=[Cost("/stats.json", 9, 9, 9, 1)]).faults()


def test_parts_that_were_not_run_are_not_shown():
    assert Results({}).table() == ""
    assert arguments(["--only", "harm"]).parts == ["harm"]
    with pytest.raises(SystemExit):
        arguments(["--only", "nothing"])


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_client_that_is_sent_away_comes_back(kind: int):
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = Client(server.getsockname(), kind)
        for _ in range(2):
            while not client.is_connected():
                client.step()
            server.accept()[0].close()
            for _ in range(10_000):
                if not client.is_connected():
                    break
                client.step()
            assert not client.is_connected()

# SPDX-License-Identifier: Apache-2.0
"""scripts/generate_docs.py --check: current pages pass, edited and absent ones fail."""

import re

from tree import run_check

from llamalloc.formats import contracts


def test_generated_pages_are_current_until_edited(tmp_path):
    assert run_check("generate_docs.py", "--into", tmp_path) == (0, "")
    assert run_check("generate_docs.py", "--check", "--into", tmp_path) == (0, "")
    page = tmp_path / "options.md"
    page.write_text(page.read_text().replace("sample_interval", "sample_intervals"))
    status, errors = run_check("generate_docs.py", "--check", "--into", tmp_path)
    assert status == 1
    assert "options.md: differs from contracts/" in errors
    assert "statistics.md" not in errors


def test_absent_pages_fail(tmp_path):
    status, errors = run_check("generate_docs.py", "--check", "--into", tmp_path)
    assert status == 1
    assert len(errors.splitlines()) == 4


def test_every_row_of_the_tables_has_its_line(tmp_path):
    run_check("generate_docs.py", "--into", tmp_path)
    options = (tmp_path / "options.md").read_text()
    statistics = (tmp_path / "statistics.md").read_text()
    api = (tmp_path / "api.md").read_text()
    commands = (tmp_path / "commands.md").read_text()
    assert contracts.rows("commands.def", "COMMAND")
    for name, *_ in contracts.rows("commands.def", "COMMAND"):
        assert f"| `{name}" in commands
    for name, _ in contracts.rows("commands.def", "NAMED_VALUE"):
        assert f"| `{name}` |" in commands
    for (name,) in contracts.rows("commands.def", "LIVE_OPTION"):
        assert f"`{name}`" in commands
        assert any("| live |" in line for line in options.splitlines() if f"| `{name}`" in line)
    assert all(f"| `{name.signature}` |" in api for name in contracts.exported_names())
    assert contracts.options()
    assert all(f"| `{option.name}` |" in options for option in contracts.options())
    assert all(f"| `{stat.name}` |" in statistics for stat in contracts.stats())
    assert all(f"| `{c.name}` |" in statistics for c in contracts.lifetime_classes())


def test_every_time_has_a_unit(tmp_path):
    run_check("generate_docs.py", "--into", tmp_path)
    rows = [line.split(" | ") for line in (tmp_path / "options.md").read_text().splitlines()]
    times = {row[0][3:-1]: (row[2], *row[3].split(" to ")) for row in rows if row[1:2] == ["time"]}
    assert times["sleeper_delay"] == ("1s", "1ns", "1h")
    assert all(re.fullmatch(r"0|\d+(ns|us|ms|s|h)", t) for row in times.values() for t in row)

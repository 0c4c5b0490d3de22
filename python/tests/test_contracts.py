# SPDX-License-Identifier: Apache-2.0
"""The tables are read whole and right, and the package ships what it needs."""

import re
import tomllib
from pathlib import Path

import pytest

from llamalloc.formats import contracts

ROOT = Path(__file__).resolve().parents[2]


def test_classes_are_the_papers_eight_but_one_and_mixed():
    names = [row.name for row in contracts.lifetime_classes()]
    assert names[:3] == ["le_10ms", "le_100ms", "le_3s"]
    assert names[-3:] == ["gt_1000s", "never", "mixed"]
    assert len(names) == 9


def test_bounds_grow_tenfold_but_for_one_and_end_unbounded():
    bounds = [row.upper_bound_ns for row in contracts.lifetime_classes()]
    assert bounds[:6] == [10**7, 10**8, 3 * 10**9, 10**10, 10**11, 10**12]
    assert bounds[6:] == [0, 0, 0]


def test_every_class_has_a_page_group_that_exists():
    groups = {group.name for group in contracts.page_groups()}
    assert {row.page_group for row in contracts.lifetime_classes()} <= groups


@pytest.mark.parametrize(
    ("table", "macro", "read"),
    [
        ("options.def", "OPTION", contracts.options),
        ("stats.def", "STAT", contracts.stats),
        ("lifetime_classes.def", "PAGE_GROUP", contracts.page_groups),
        ("api.def", "API", contracts.exported_names),
        ("api.def", "API_SHARED", contracts.shared_names),
        ("api.def", "API_STATIC", contracts.static_names),
    ],
)
def test_no_row_is_skipped(table, macro, read):
    text = (ROOT / "contracts" / table).read_text()
    assert len(read()) == len(re.findall(rf"^{macro}\(", text, re.MULTILINE)) > 0


def test_exported_names_are_different_and_described():
    names = contracts.exported_names()
    assert len({name.symbol for name in names}) == len(names)
    assert all(name.signature and name.contract for name in names)


def test_option_types():
    options = {option.name: option for option in contracts.options()}
    assert options["profile_flush"].default == 10_000_000_000
    assert options["sample_interval"].default == 0
    assert options["model"].is_path and options["model"].default == ""
    assert not options["hugepages"].is_path


def test_a_row_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    (tmp_path / "bad.def").write_text('ROW(a, "unclosed)\n')
    monkeypatch.setattr(contracts, "folder", lambda: tmp_path)
    with pytest.raises(ValueError, match="unclosed"):
        contracts.rows("bad.def", "ROW")


def test_an_installed_package_lists_every_folder_of_the_tree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(project["tool"]["setuptools"]["packages"])
    tree = {
        ".".join(path.parent.relative_to(ROOT / "python").parts)
        for path in (ROOT / "python" / "llamalloc").rglob("*.py")
    }
    assert listed == tree | {"llamalloc._contracts"}

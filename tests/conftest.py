# SPDX-License-Identifier: Apache-2.0
"""Lets the tests of this folder use the helpers of tests/servers, and lab/."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "servers"), str(HERE.parent)]


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Path:
    """The prefix of an installed tree."""
    from installing import install

    return install(tmp_path_factory.mktemp("install"))

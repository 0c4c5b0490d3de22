# SPDX-License-Identifier: Apache-2.0
"""Names of call sites in pictures: shown as they are, whatever matplotlib makes of such text."""

from __future__ import annotations

import pytest

from llamalloc.reporting import pictures
from llamalloc.reporting.history import Timeline

NAMES = ("f$1_$2", "_start", "__libc_start_main")


def shown() -> Timeline:
    sites = {name: [1 << 20, 2 << 20] for name in NAMES}
    return Timeline([0.0, 1.0], [4 << 20, 9 << 20], sites)


@pytest.mark.filterwarnings("error")  # such as a glyph that the font lacks
def test_any_name_of_a_call_site_is_in_the_legend(monkeypatch: pytest.MonkeyPatch):
    drawn = []
    png = pictures.png

    def looked_at(figure) -> bytes:
        drawn.extend(text.get_text() for text in figure.axes[0].get_legend().get_texts())
        return png(figure)

    monkeypatch.setattr(pictures, "png", looked_at)
    assert pictures.timeline(shown(), None).startswith(b"\x89PNG")
    names = [text.replace("\\$", "$").replace("\u200b", "") for text in drawn]
    assert names == [*NAMES, "all other call sites"]

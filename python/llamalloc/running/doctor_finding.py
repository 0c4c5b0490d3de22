# SPDX-License-Identifier: Apache-2.0
"""What the doctor says: one fact, what it means, what to do."""

from __future__ import annotations

from dataclasses import dataclass

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """One line of the page; `cure` is empty where there is nothing to do.

    `ok`: nothing to do; `note`: works, with a limit worth knowing; `problem`: it will not work, or
    not do what one came for.
    """

    level: str
    subject: str
    found: str
    meaning: str = ""
    cure: str = ""

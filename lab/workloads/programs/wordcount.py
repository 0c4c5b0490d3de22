# SPDX-License-Identifier: Apache-2.0
"""Word count: workloads/wordcount/wordcount.cc, after ASPLOS 2020, section 7."""

from __future__ import annotations

from lab.workloads.recipe import BuiltRecipe, Session, built


class WordCount(BuiltRecipe):
    """Mappers and reducers, 476 threads in all."""

    name = "wordcount"
    title = "word count over a large generated text, 476 threads in one process"
    memory = "a record a word, freed by another thread; tables of counts that grow to the end"
    seconds = 5

    def command(self, session: Session) -> list[str]:
        """Words by the scale, threads as in the paper."""
        words, mappers = session.scaled(5_000_000, 1_000), session.scaled(444, 12)
        threads = [str(min(444, mappers)), "32" if mappers > 100 else "4"]
        return [str(built("wordcount")), str(words), *threads, str(session.seed)]

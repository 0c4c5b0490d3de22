# SPDX-License-Identifier: Apache-2.0
"""Programs that serve a load like a server's, which they make themselves: workloads/servers.

The first nine were written to find loads that learning makes worse; of the other eight, by another
author, four are loads that it should help, and four look so.
"""

from __future__ import annotations

from lab.workloads.recipe import BuiltRecipe, Session, built

_SECONDS = 40  # of load; four or more waves of most programs
_QUIET = 3  # seconds at the end, for which a program keeps what stays


class MadeServer(BuiltRecipe):
    """A program that does the same at the same times, whatever the allocator."""

    seconds = _SECONDS + _QUIET + 1
    result = r"^\w+ ops=\d+ check=[0-9a-f]{16}$"

    def __init__(self, name: str, title: str, memory: str) -> None:
        self.name, self.title, self.memory = f"server-{name}", title, memory

    def command(self, session: Session) -> list[str]:
        """The load by the scale. It is shorter below a quarter, where the heap is too small for
        learning anyway."""
        seconds = min(_SECONDS, max(_QUIET, 4 * _SECONDS * session.scale))
        return [
            *(str(built(self.name)), "--seed", str(session.seed)),
            *("--scale", str(session.scale), "--seconds", str(seconds)),
        ]


SERVERS = (
    MadeServer(
        "jsonapi",
        "a JSON service, bursts every 10 s",
        "parsed requests that die with their answer; sessions from the same parser stay",
    ),
    MadeServer(
        "orm",
        "entities in graphs of shared_ptr, waves every 4 s",
        "graphs that die with their unit of work; what an entity holds decides whether it stays",
    ),
    MadeServer(
        "batchidx",
        "an inverted index, made in jobs of all sizes",
        "the index of a job dies after it, three jobs later, or in part never",
    ),
    MadeServer(
        "ordermatch",
        "an exchange, waves every 2 s",
        "orders from one call site that live from 60 ms to the whole run",
    ),
    MadeServer(
        "tsdb",
        "a time series store with flushes and bursts of queries",
        "a table that dies at each flush, rings of blocks and chunks, an index that grows",
    ),
    MadeServer(
        "chat",
        "storms of chat clients every 8 s",
        "buffers that grow by realloc and go with their client; a history from the same wrapper",
    ),
    MadeServer(
        "templ",
        "pages from templates, a load like a sine of 20 s",
        "pages that die when they are read, and the same pages in an LRU cache",
    ),
    MadeServer(
        "graph",
        "graphs and messages that another thread frees, waves every 6 s",
        "small nodes die in waves; one in 50, of the same sizes, stays",
    ),
    MadeServer(
        "interp",
        "a small Lisp, waves of requests every 10 s",
        "all objects come from one call site and die by mark and sweep",
    ),
    MadeServer(
        "webfront",
        "a web front end with sessions, plateaus every 12 s",
        "requests that live up to 3 s; sessions and path counters from the same string functions",
    ),
    MadeServer(
        "gameworld",
        "matches of a game, spikes every 6 s",
        "what is in a match dies with it; what is won in it stays, from the same constructors",
    ),
    MadeServer(
        "buildd",
        "a build daemon, builds every 9 s",
        "a graph of actions that is dropped at once; caches that fill while it lives",
    ),
    MadeServer(
        "logpipe",
        "a log pipeline in C, bursts at random",
        "records that wait for seconds; aggregates and exemplars from the same string function",
    ),
    MadeServer(
        "mvcc",
        "a store with versions, vacuums every 8 s",
        "versions from one call site: the last of each row stays, as its data decides",
    ),
    MadeServer(
        "broker",
        "a message broker with two threads, waves every 5 s",
        "messages of a feed are transient for hours, then durable, then transient again",
    ),
    MadeServer(
        "sheet",
        "a spreadsheet service with pools of its own, spikes every 4 s",
        "chunks and slabs of workbooks; one workbook in 18 stays open",
    ),
    MadeServer(
        "colstore",
        "a columnar store, plateaus every 11 s",
        "columns that grow by realloc; query results, one in nine of which is kept for seconds",
    ),
)

"""What is not projected yet: a cursor into the log, and traces that were marked to be projected again."""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Iterable, Iterator

import msgspec

from dashcam.store.base import Lag, Unprojected
from dashcam.store.sqlite.statements import insert_rows, one_moment

# Of other events nothing is derived: a trace of them alone needs no projecting.
OF_CALLS = "operation IN ('model_call', 'model_request')"
_EVENTS = f"SELECT seq, trace_id FROM events WHERE seq > ? AND {OF_CALLS}"
_GROWTH = (
    _EVENTS,
    "SELECT seq, trace_id FROM spans WHERE seq > ?",
    "SELECT seq, trace_id FROM logs WHERE seq > ?",
)
WINDOW = 1_000  # rows of each table that are looked at in one go
_REMEMBERED = 100_000  # traces


class _Listed(msgspec.Struct, frozen=True):
    """How a trace stood when it was listed: the newest `seq` then, and its mark."""

    seq: int
    mark: int | None


class Backlog:
    """Pages through what is to be projected.

    It may run in another process than the one that appends. So nothing counts as projected but what had been
    committed when a page was read, and a mark goes only if it is still the one that was read.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._cursor: int | None = None  # where the last page began
        self._idle = 0  # up to here nothing waits: it is not looked through again while there is nothing to do
        self._listed: dict[str, _Listed] = {}
        self._done: dict[str, int] = {}  # up to which seq a trace is projected, though the cursor is not there yet

    def page(self, limit: int) -> Unprojected:
        """Marked traces, then those that something new arrived for, the oldest arrival first."""
        with one_moment(self._connection):
            since, newest = cursor(self._connection), newest_seq(self._connection)
            if self._cursor is None or since < self._cursor:  # everything was forgotten
                self._done.clear()
                self._idle = 0
            self._cursor = since
            marked = dict(
                self._connection.execute(
                    "SELECT trace_id, marked FROM dirty_traces ORDER BY marked, trace_id LIMIT ?", (max(limit // 2, 1),)
                ).fetchall()
            )
            grown, at = self._grown(max(since, self._idle), newest, limit - len(marked), set(marked))
            self._idle = self._idle if grown else at
        known = self._listed
        self._listed = {
            trace_id: known[trace_id] if trace_id in known else _Listed(newest, marked.get(trace_id))
            for trace_id in (*marked, *grown)
        }
        return Unprojected(list(self._listed), str(at), str(since))

    def is_beyond(self, at: str) -> bool:
        """Whether a cursor is further than the one that is kept."""
        return int(at) > cursor(self._connection)

    def settle(self, trace_ids: Iterable[str], at: str) -> None:
        """In the transaction that projects these: take their marks away, move the cursor.

        A cursor that somebody else has set back meanwhile stays where it is.
        """
        settled = [(trace_id, self._listed[trace_id].mark) for trace_id in trace_ids if trace_id in self._listed]
        self._connection.executemany("DELETE FROM dirty_traces WHERE trace_id = ? AND marked = ?", settled)
        if self._cursor is None or cursor(self._connection) >= self._cursor:
            set_cursor(self._connection, at)

    def note(self, trace_ids: Iterable[str], at: str) -> None:
        """After that transaction: what of these has arrived before they were listed needs no second look."""
        for trace_id in trace_ids:
            if listed := self._listed.pop(trace_id, None):
                self._done.pop(trace_id, None)
                self._done[trace_id] = listed.seq
        self._cursor = None if self._cursor is None else max(self._cursor, int(at))
        if len(self._done) > _REMEMBERED:
            newest = list(self._done.items())[-_REMEMBERED // 2 :]
            self._done = {trace_id: seq for trace_id, seq in newest if seq > int(at)}

    def _grown(self, at: int, newest: int, room: int, marked: set[str]) -> tuple[list[str], int]:
        """Traces that have grown after `at`, at most `room`, and up to where all that have are among them."""
        found: dict[str, None] = {}
        while at < newest:
            rows, end = self._window(at, newest)
            for seq, trace_id in rows:
                if trace_id not in found and trace_id not in marked and self._done.get(trace_id, 0) < seq:
                    if len(found) >= room:
                        return list(found), seq - 1
                    found[trace_id] = None
            at = end
        return list(found), at

    def _window(self, at: int, newest: int) -> tuple[Iterator[tuple[int, str]], int]:
        """What comes next in the log, in the order of arrival, and the `seq` up to which that is all."""
        tables = [
            self._connection.execute(f"{query} AND seq <= ? ORDER BY seq LIMIT ?", (at, newest, WINDOW)).fetchall()
            for query in _GROWTH
        ]
        end = min([rows[-1][0] for rows in tables if len(rows) == WINDOW], default=newest)
        return (row for row in heapq.merge(*tables) if row[0] <= end), end


def lag(connection: sqlite3.Connection) -> Lag:
    """How far projecting is behind. What needs no projecting counts as projected."""
    with one_moment(connection):
        since, newest = cursor(connection), newest_seq(connection)
        waiting = connection.execute("SELECT 1 FROM dirty_traces LIMIT 1").fetchone() or any(
            connection.execute(f"{query} LIMIT 1", (since,)).fetchone() for query in reversed(_GROWTH)
        )
    return Lag(seq=newest, projected=max(min(since, newest - 1), 0) if waiting else newest)


def has_new_events(connection: sqlite3.Connection) -> bool:
    """Whether there are events that something is to be derived from."""
    return connection.execute(f"{_EVENTS} LIMIT 1", (cursor(connection),)).fetchone() is not None


def mark(connection: sqlite3.Connection, trace_ids: Iterable[str]) -> None:
    """Have these traces projected again."""
    now = time.time_ns()
    rows = [(trace_id, now) for trace_id in sorted(set(trace_ids))]
    insert_rows(
        connection,
        "INSERT INTO dirty_traces (trace_id, marked)",
        rows,
        "ON CONFLICT DO UPDATE SET marked = max(marked + 1, excluded.marked)",
    )


def newest_seq(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM meta WHERE name = 'seq'").fetchone()
    return int(row[0]) if row else 0


def cursor(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM meta WHERE name = 'projected'").fetchone()
    return int(row[0]) if row else 0


def set_cursor(connection: sqlite3.Connection, at: str) -> None:
    connection.execute("REPLACE INTO meta (name, value) VALUES ('projected', ?)", (at,))

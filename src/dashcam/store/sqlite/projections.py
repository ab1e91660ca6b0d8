"""Layer 3: what is derived from the log, replaced a trace at a time and never edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.store.base import Projection, Unprojected
from dashcam.store.sqlite import facts, search
from dashcam.store.sqlite.log import DAY
from dashcam.store.sqlite.statements import insert_rows

# Events of which something is derived. A trace without any of them needs no projecting.
PROJECTED = ("model_call", "model_request")

_COLUMNS = ", ".join(ModelCall.__struct_fields__)
_ROLLUPS = (
    "INSERT INTO rollups (day, source_id, kind, operation, events, malformed, redacted, orphans) "
    f"SELECT date((ts - (ts % {DAY} + {DAY}) % {DAY}) / 1000000, 'unixepoch'), source_id, "  # rounded down, as in log.py
    "{kind}, operation, {counts} FROM {table} "
    "WHERE ts < ? GROUP BY 1, 2, 3, 4 ON CONFLICT DO UPDATE SET orphans = orphans + excluded.orphans"
)
_EVER = 2**62
_DATED = 253_402_300_799_999_999  # the last moment of 9999; SQLite knows no date of a later one


def unprojected(connection: sqlite3.Connection, limit: int) -> Unprojected:
    """Traces that something new arrived for, the longest quiet first.

    The cursor is the last arrival for the last of them: whatever a later page holds came after it.
    """
    since = cursor(connection)
    names = ",".join("?" * len(PROJECTED))
    found = connection.execute(
        f"SELECT max(seq), trace_id FROM events WHERE seq > ? AND operation IN ({names}) "
        "GROUP BY trace_id ORDER BY 1 LIMIT ?",
        (since, *PROJECTED, limit),
    ).fetchall()
    return Unprojected([trace_id for _, trace_id in found], str(found[-1][0] if found else since))


def cursor(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM meta WHERE name = 'projected'").fetchone()
    return int(row[0]) if row else 0


def set_cursor(connection: sqlite3.Connection, at: str) -> None:
    connection.execute("REPLACE INTO meta (name, value) VALUES ('projected', ?)", (at,))


def replace(connection: sqlite3.Connection, projections: Mapping[str, Projection]) -> None:
    """Put these in the place of all that was derived from their traces before."""
    for trace_id, projection in projections.items():
        connection.execute("DELETE FROM model_calls WHERE trace_id = ?", (trace_id,))
        rows = [msgspec.structs.astuple(call) for call in projection.model_calls]
        insert_rows(connection, f"INSERT INTO model_calls ({_COLUMNS})", rows)


def forget(connection: sqlite3.Connection) -> None:
    """Drop every projection. What is counted comes back at once; the rest when the projector has run."""
    connection.execute("DELETE FROM model_calls")
    set_cursor(connection, "0")
    count_again(connection, None)
    facts.recount(connection)
    search.rebuild(connection)


def count_again(connection: sqlite3.Connection, before: int | None) -> None:
    """Count the rollups from the log again: all, or those of the days up to that of `before`."""
    end = _EVER if before is None else (before // DAY + 1) * DAY
    connection.execute("DELETE FROM rollups WHERE ? OR day < date(? / 1000000, 'unixepoch')", (end > _DATED, end))
    marks = "count(*), sum(marks & 1), sum(marks & 2) / 2, 0"
    connection.execute(_ROLLUPS.format(kind="kind", counts=marks, table="events"), (end,))
    connection.execute(_ROLLUPS.format(kind="''", counts="0, 0, 0, count(*)", table="orphans"), (end,))

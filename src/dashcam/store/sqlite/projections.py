"""Layer 3: what is derived from the log, replaced a trace at a time. Only what differs is written.

Works inside the transaction that the caller holds.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import astuple

from dashcam.contracts.call import ModelCall
from dashcam.contracts.score import Score
from dashcam.store.base import Piece, Projection, ToldTurn
from dashcam.store.sqlite import contents, dependants, facts, projected, search
from dashcam.store.sqlite.backlog import set_cursor
from dashcam.store.sqlite.log import DAY
from dashcam.store.sqlite.statements import chunks, insert_rows, marks

_ROLLUPS = (
    "INSERT INTO rollups (day, source_id, kind, operation, events, malformed, redacted, orphans) "
    f"SELECT date((ts - (ts % {DAY} + {DAY}) % {DAY}) / 1000000, 'unixepoch'), source_id, "  # rounded down, as in log.py
    "{kind}, operation, {counts} FROM {table} "
    "WHERE ts < ? GROUP BY 1, 2, 3, 4 ON CONFLICT DO UPDATE SET orphans = orphans + excluded.orphans"
)
_IN_LOG = " OR ".join(
    f"EXISTS (SELECT 1 FROM {table} WHERE trace_id = column1)" for table in ("spans", "logs", "events")
)
_EVER = 2**62
_DATED = 253_402_300_799_999_999  # the last moment of 9999; SQLite knows no date of a later one

_Rows = dict[str, list[tuple[Any, ...]]]  # by trace


class _Table(NamedTuple):
    """A table of derived rows, and the column that says of which trace they are."""

    name: str
    columns: tuple[str, ...]
    owner: str = "trace_id"
    order: str = ""


CALLS = _Table("model_calls", ModelCall.__struct_fields__, order="rowid")
PIECES = _Table("projected_traces", Piece.__struct_fields__, order="session_id")
TURNS = _Table("projected_turns", (*ToldTurn.__struct_fields__, "trace_id"), order="session_id, digest")
SCORES = _Table("scores", (*Score.__struct_fields__, "told_by"), owner="told_by", order="score_id")


def still_in_log(connection: sqlite3.Connection, projections: Mapping[str, Projection]) -> dict[str, Projection]:
    """The projections, but none of a trace that was let go of while it was projected elsewhere."""
    left = {trace_id for trace_id, each in projections.items() if not each.pieces}  # derived from events alone
    for chunk in chunks([trace_id for trace_id in projections if trace_id not in left]):
        query = f"SELECT column1 FROM (VALUES {','.join(['(?)'] * len(chunk))}) WHERE {_IN_LOG}"
        left |= {trace_id for (trace_id,) in connection.execute(query, chunk)}
    return {trace_id: each if trace_id in left else Projection() for trace_id, each in projections.items()}


def replace(connection: sqlite3.Connection, projections: Mapping[str, Projection], *, tell: bool = True) -> None:
    """Put these in the place of all that was derived from their traces before.

    Without `tell` the traces that build on these stay as they are: what was let go of is not told again by others.
    """
    now = time.time_ns() // 1_000_000
    for projection in projections.values():
        for prompt in projection.system_prompts:
            contents.put_system_prompt(connection, prompt, now)
        for catalog in projection.tool_catalogs:
            contents.put_tool_catalog(connection, catalog, now)
    calls = {trace: list(map(astuple, each.model_calls)) for trace, each in projections.items()}
    calls_before = _swap(connection, CALLS, calls)
    _swap(connection, SCORES, {trace: _score_rows(trace, each.scores) for trace, each in projections.items()})
    pieces = {trace: sorted(map(astuple, each.pieces), key=lambda row: row[1]) for trace, each in projections.items()}
    turns = {trace: _turn_rows(trace, each.turns) for trace, each in projections.items()}
    pieces_before = _swap(connection, PIECES, pieces)
    turns_before = _swap(connection, TURNS, turns)
    changed = {trace for trace, rows in pieces.items() if rows != pieces_before[trace]}
    touched = {row[1] for trace in changed for row in (*pieces[trace], *pieces_before[trace])}
    projected.write(connection, projections, touched)
    if tell:
        before, after = (
            {trace: dependants.standing(pieces[trace], turns[trace]) for trace in projections}
            for pieces, turns in ((pieces_before, turns_before), (pieces, turns))
        )
        dependants.mark(connection, before, after)
        dependants.mark_repeats(connection, calls_before, calls)


def _score_rows(trace_id: str, scores: Sequence[Score]) -> list[tuple[Any, ...]]:
    """One row a score: of several the latest."""
    latest = {score.score_id: score for score in sorted(scores, key=lambda score: score.ts)}
    return [(*astuple(score), trace_id) for _, score in sorted(latest.items())]


def _turn_rows(trace_id: str, turns: Sequence[ToldTurn]) -> list[tuple[Any, ...]]:
    return sorted((*astuple(turn), trace_id) for turn in turns)


def _swap(connection: sqlite3.Connection, table: _Table, wanted: _Rows) -> _Rows:
    """Let a table hold these rows of each trace; return those that it held."""
    stored = _load(connection, table, list(wanted))
    differing = [trace for trace, rows in wanted.items() if rows != stored[trace]]
    for chunk in chunks([trace for trace in differing if stored[trace]]):
        connection.execute(f"DELETE FROM {table.name} WHERE {table.owner} IN ({marks(chunk)})", chunk)
    rows = [row for trace in differing for row in wanted[trace]]
    insert_rows(connection, f"INSERT INTO {table.name} ({', '.join(table.columns)})", rows)
    return stored


def _load(connection: sqlite3.Connection, table: _Table, traces: Sequence[str]) -> _Rows:
    found: _Rows = {trace: [] for trace in traces}
    for chunk in chunks(traces):
        query = f"SELECT {table.owner}, {', '.join(table.columns)} FROM {table.name} WHERE {table.owner} IN ({marks(chunk)})"
        for trace, *row in connection.execute(f"{query} ORDER BY {table.order}", chunk):
            found[trace].append(tuple(row))
    return found


def forget(connection: sqlite3.Connection) -> None:
    """Drop every projection. What is counted comes back at once; the rest when the projector has run."""
    connection.execute("DELETE FROM chat_sessions WHERE id IN (SELECT session_id FROM projected_sessions)")
    for table in ("projected_sessions", "projected_messages", "dirty_traces"):
        connection.execute(f"DELETE FROM {table}")
    for derived in (CALLS, PIECES, TURNS, SCORES):
        connection.execute(f"DELETE FROM {derived.name}")
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

"""Checking a whole store: the file, the log, what is derived, every content and chain, and chat sessions."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator

from dashcam.contracts.identity import otel_trace_id
from dashcam.store.sqlite.verify import verify_contents
from dashcam.store.sqlite.verify_chat import verify_chat
from dashcam.store.sqlite.verify_spans import verify_projected, verify_spans

# A trace that is marked is about to be projected again.
_UNTOLD_CALLS = (
    "SELECT trace_id, step, session_id FROM model_calls AS c WHERE NOT EXISTS (SELECT 1 FROM events AS e "
    "WHERE e.trace_id = c.trace_id AND e.step = c.step AND e.session_id = c.session_id "
    "AND e.operation IN ('model_call', 'model_request')) "
    "AND NOT EXISTS (SELECT 1 FROM spans AS s WHERE s.trace_id = c.trace_id AND s.span_id = c.span_id) "
    "AND NOT EXISTS (SELECT 1 FROM logs AS l WHERE l.trace_id = c.trace_id) "
    "AND NOT EXISTS (SELECT 1 FROM dirty_traces AS d WHERE d.trace_id = c.trace_id) ORDER BY trace_id, step"
)


def verify(connection: sqlite3.Connection) -> Iterator[str]:
    """One sentence for everything that is not as it should be; nothing for a sound store.

    All of it as of one moment: it is one read transaction, which ends with the generator.
    """
    ours = not connection.in_transaction
    if ours:
        connection.execute("BEGIN")
    try:
        for part in _PARTS:
            yield from _to_the_end(part(connection))
    finally:
        if ours and connection.in_transaction:
            connection.execute("ROLLBACK")  # nothing was written


def _to_the_end(findings: Iterator[str]) -> Iterator[str]:
    """Damage that stops a check is a finding, and no reason to leave out the others."""
    try:
        yield from findings
    except (sqlite3.DatabaseError, zlib.error) as error:
        yield (
            f"The file is damaged: {error}. Not everything could be checked. "
            "Go back to a backup, or collect the journals into a new store."
        )


def _verify_file(connection: sqlite3.Connection) -> Iterator[str]:
    for (said,) in connection.execute("PRAGMA integrity_check").fetchall():
        if said != "ok":
            yield f"The file is damaged: {said}. Go back to a backup, or collect the journals into a new store."
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchall():
        yield f"Row {row} of {table} names a row of {parent} that is not there."


def _verify_log(connection: sqlite3.Connection) -> Iterator[str]:
    beyond = connection.execute(
        'SELECT s.segment, count(*) FROM events e JOIN sources s ON s.id = e.source_id WHERE e."offset" >= s."offset" '
        'AND s."offset" > 0 GROUP BY s.id'
    ).fetchall()
    for segment, count in beyond:
        yield f"{count} events of {segment} lie beyond the point up to which it was collected."
    counted = connection.execute("SELECT coalesce(sum(events), 0), coalesce(sum(orphans), 0) FROM rollups").fetchone()
    for table, told in zip(("events", "orphans"), counted, strict=True):
        there = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        if there != told:
            yield f"The rollups count {told} {table}, the log holds {there}. Mend it with: dashcam rebuild"


def _verify_joins(connection: sqlite3.Connection) -> Iterator[str]:
    """What is derived must lead back to the log."""
    for trace_id, step, session_id in connection.execute(_UNTOLD_CALLS):
        yield (
            f"Trace {trace_id}, step {step}: no model_call event and no span of session {session_id} tells of this model call. "
            "Mend it with: dashcam rebuild"
        )
    for otel_id, trace_id in connection.execute("SELECT otel_trace_id, trace_id FROM trace_aliases"):
        if otel_trace_id(trace_id) != otel_id:
            yield f"Trace {trace_id} is noted as {otel_id} for OTLP; its derived id is {otel_trace_id(trace_id)}."


_PARTS = (_verify_file, _verify_log, verify_spans, _verify_joins, verify_contents, verify_chat, verify_projected)

"""Checking spans and log records: hashed again, with all that they name; and what is projected from them."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dashcam.contracts.span import LogRecord, Span
from dashcam.store.sqlite.packing import unpack
from dashcam.store.sqlite.spans import LOGS, SPANS, logs_of, scope_digest, spans_of

Build = Callable[[sqlite3.Connection, Sequence[tuple[Any, ...]]], Sequence[Span | LogRecord]]

_REBUILD = "Mend it with: dashcam rebuild"
_BATCH = 1000  # rows in memory
_TEXTS = ("trace_id", "span_id", "parent_span_id", "name", "severity", "refs")
_LOST_SCOPES = "SELECT count(*) FROM {table} WHERE scope_id NOT IN (SELECT id FROM scopes)"
_NAMED = (
    "SELECT seq, r.value ->> '$.{key}' FROM {table} AS t, "
    "json_each(CASE WHEN json_valid(t.refs) THEN t.refs ELSE '[]' END) AS r WHERE t.refs IS NOT NULL AND r.value ->> '$.{key}' IS NOT NULL AND lower(r.value ->> '$.{key}') NOT IN "
    "(SELECT lower(hex(digest)) FROM {known}) ORDER BY seq"
)
# What is not as it should be, and the query for whom that is.
_PROJECTED = (
    (
        "Message {} is projected from a trace and is not there.",
        "SELECT DISTINCT message_id FROM projected_messages WHERE message_id NOT IN (SELECT id FROM chat_messages)",
    ),
    (
        "Message {} is in a projected session, and no trace tells it.",
        "SELECT id FROM chat_messages WHERE session_id IN (SELECT session_id FROM projected_sessions) "
        "AND id NOT IN (SELECT message_id FROM projected_messages)",
    ),
    (
        "Session {} is noted as projected and has no row.",
        "SELECT session_id FROM projected_sessions WHERE session_id NOT IN (SELECT id FROM chat_sessions)",
    ),
    (
        "Session {} is noted as projected, and no trace tells it.",
        "SELECT session_id FROM projected_sessions WHERE session_id NOT IN (SELECT session_id FROM projected_traces)",
    ),
    (
        "Session {} has projected traces and no row.",
        "SELECT DISTINCT session_id FROM projected_traces WHERE session_id NOT IN (SELECT id FROM chat_sessions) "
        "AND trace_id NOT IN (SELECT trace_id FROM dirty_traces)",
    ),
    (
        "Trace {} is projected, and nothing of it is in the log.",
        "SELECT DISTINCT trace_id FROM projected_traces AS p WHERE NOT EXISTS (SELECT 1 FROM dirty_traces AS d "
        "WHERE d.trace_id = p.trace_id) AND NOT EXISTS (SELECT 1 FROM spans AS s WHERE s.trace_id = p.trace_id) "
        "AND NOT EXISTS (SELECT 1 FROM logs AS l WHERE l.trace_id = p.trace_id) "
        "AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.trace_id = p.trace_id)",
    ),
    (
        "Trace {} tells turns of a session that it is not part of.",
        "SELECT DISTINCT trace_id FROM projected_turns AS t WHERE NOT EXISTS (SELECT 1 FROM projected_traces AS p "
        "WHERE p.trace_id = t.trace_id AND p.session_id = t.session_id)",
    ),
)


def verify_spans(connection: sqlite3.Connection) -> Iterator[str]:
    """Every finding in spans, log records and scopes."""
    for number, digest, body in connection.execute("SELECT id, digest, CAST(body AS BLOB) FROM scopes").fetchall():
        try:
            is_sound = scope_digest(unpack(body)) == digest
        except zlib.error:
            is_sound = False
        if not is_sound:
            yield f"Scope {number} has changed: the spans around which it stands can't be given back as they were sent."
    yield from _verify_digests(connection, SPANS, spans_of, "Span")
    yield from _verify_digests(connection, LOGS, logs_of, "Log record")
    for table in ("spans", "logs"):
        (lost,) = connection.execute(_LOST_SCOPES.format(table=table)).fetchone()
        if lost:
            yield f"{lost} {table} stand in a scope that is missing."
        for key, known in (("content", "contents"), ("context", "contexts")):
            for seq, digest in connection.execute(_NAMED.format(table=table, key=key, known=known)).fetchall():
                yield f"Row {seq} of {table} names the {key} {digest}, which is missing."


def verify_projected(connection: sqlite3.Connection) -> Iterator[str]:
    """Every finding in what is projected from traces."""
    for told, query in _PROJECTED:
        for (whose,) in connection.execute(f"{query} ORDER BY 1").fetchall():
            yield f"{told.format(whose)} {_REBUILD}"


def _verify_digests(connection: sqlite3.Connection, select: str, build: Build, noun: str) -> Iterator[str]:
    """Together, and where that fails row by row: one that can't be read is no reason to leave out the others."""
    query = select.replace(" FROM", ", digest FROM")
    for name in _TEXTS:  # as bytes: SQLite can't decode what is no UTF-8
        query = query.replace(f" {name},", f" CAST({name} AS BLOB),")
    last = -(2**63)
    while rows := connection.execute(f"{query} WHERE seq > ? ORDER BY seq LIMIT {_BATCH}", (last,)).fetchall():
        last = rows[-1][0]
        for row, digest, found in zip(rows, [row[-1] for row in rows], _built(connection, rows, build), strict=True):
            name = f"{noun} {row[0]} of trace {_text(row[1])}"
            if isinstance(found, Exception):
                yield f"{name} is damaged: {found}."
            elif found.digest != digest:
                yield f"{name} has changed: it hashes to {found.digest.hex()}."


def _built(
    connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]], build: Build
) -> Sequence[Span | LogRecord | Exception]:
    """Each row as it was told, or why it can't be read."""
    try:
        return build(connection, [tuple(map(_text, row[:-1])) for row in rows])
    except (sqlite3.DatabaseError, zlib.error, ValueError, TypeError) as error:
        if len(rows) == 1:
            return [error]
        return [found for row in rows for found in _built(connection, [row], build)]


def _text(value: object) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value

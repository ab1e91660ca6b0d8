"""Traces at a glance, whether they are of events, of spans or log records, or of all three.

What a trace's spans come to is read from its projection where traces are listed, and from the spans themselves where
one is asked for, so that it is there as soon as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from dashcam.contracts.identity import otel_trace_id
from dashcam.errors import TraceNotFound
from dashcam.store.base import Piece, TraceFilter, TraceSummary
from dashcam.store.sqlite.spans import ERROR
from dashcam.store.sqlite.statements import chunks, marks

MIN_BEGINNING = 4  # characters of an id that may stand for all of it

_EVENTS = (
    "SELECT trace_id, min(session_id), min(kind), count(*), count(*) - count(DISTINCT step), "
    "sum(marks & 1), min(ts), max(ts) FROM events"
)
_EVENT_FIELDS = ("trace_id", "session_id", "kind", "events", "shared_steps", "malformed", "first_ts", "last_ts")
_PIECES = f"SELECT {', '.join(Piece.__struct_fields__)} FROM projected_traces"
_PIECE_ORDER = "ORDER BY first_at, session_id"
_SPANS = (
    f"SELECT count(*), coalesce(sum(status = {ERROR}), 0), min(start_ns) / 1000, max(max(start_ns, end_ns)) / 1000 "
    "FROM spans WHERE trace_id = ?"
)
_ROOT = "SELECT name FROM spans WHERE trace_id = ? ORDER BY parent_span_id IS NOT NULL, start_ns, span_id LIMIT 1"
_LOGS = "SELECT count(*), min(ts), max(ts) FROM logs WHERE trace_id = ?"
# When a trace began. One that has two beginnings stands at the first: at the other it is passed over.
_BEGINNINGS = (
    "SELECT first_ts AS began, trace_id FROM session_traces AS t WHERE first_ts BETWEEN :since AND :until {more} "
    "AND NOT EXISTS (SELECT 1 FROM session_traces AS o WHERE o.trace_id = t.trace_id "
    "AND (o.first_ts, o.session_id, o.kind) < (t.first_ts, t.session_id, t.kind)) "
    "AND NOT EXISTS (SELECT 1 FROM projected_traces AS p WHERE p.trace_id = t.trace_id AND p.first_at * 1000 < t.first_ts) "
    "ORDER BY first_ts DESC, trace_id DESC LIMIT :limit",
    "SELECT first_at * 1000 AS began, trace_id FROM projected_traces AS t "
    "WHERE first_at BETWEEN (:since + 999) / 1000 AND :until / 1000 {more} "
    "AND NOT EXISTS (SELECT 1 FROM projected_traces AS o WHERE o.trace_id = t.trace_id "
    "AND (o.first_at, o.session_id) < (t.first_at, t.session_id)) "
    "AND NOT EXISTS (SELECT 1 FROM session_traces AS s WHERE s.trace_id = t.trace_id AND s.first_ts <= t.first_at * 1000) "
    "ORDER BY first_at DESC, trace_id DESC LIMIT :limit",
)
_FAILED = "EXISTS (SELECT 1 FROM projected_traces AS e WHERE e.trace_id = t.trace_id AND e.errors > 0) = :has_error"
_AFTER = "(began, trace_id) < (:last, :after)"
_EVER = 2**62


def trace(connection: sqlite3.Connection, trace_id: str, where: str) -> TraceSummary:
    """One trace by its id, by the id under which it left as OTLP, or by the beginning of its id if no other has it."""
    for candidate in (trace_id, *_alias(connection, trace_id), *_beginning(connection, trace_id)):
        if found := _summary(connection, candidate):
            return found
    raise TraceNotFound(trace_id, where)


def traces(connection: sqlite3.Connection, session_id: str) -> list[TraceSummary]:
    """The traces of one session, oldest first."""
    events = connection.execute(f"{_EVENTS} WHERE session_id = ? GROUP BY trace_id", (session_id,))
    found = {row[0]: _of_events(row) for row in events}
    for row in connection.execute(f"{_PIECES} WHERE session_id = ? {_PIECE_ORDER}", (session_id,)):
        piece = _piece(row)
        found[piece.trace_id] = _with_pieces(found.get(piece.trace_id), [piece])
    return sorted(found.values(), key=_age)


def trace_list(connection: sqlite3.Connection, wanted: TraceFilter) -> list[TraceSummary]:
    """Traces that began in the time asked for, the newest first."""
    limit = max(wanted.limit, 0)
    since = -_EVER if wanted.since is None else wanted.since * 1000
    until = _EVER if wanted.until is None else wanted.until * 1000 + 999
    last = _summary(connection, wanted.after) if wanted.after else None
    if wanted.after and last is None:
        return []
    if wanted.session_id is not None:
        found = [
            each
            for each in reversed(traces(connection, wanted.session_id))
            if since <= each.first_ts <= until
            and (last is None or _age(each) < _age(last))
            and wanted.has_error in (None, each.errors > 0)
        ]
        return found[:limit]
    given: dict[str, Any] = {"since": since, "until": until, "limit": limit, "has_error": wanted.has_error}
    more = "" if wanted.has_error is None else f" AND {_FAILED}"
    if last is not None:
        given |= {"last": last.first_ts, "after": last.trace_id, "until": min(until, last.first_ts)}
        more += f" AND {_AFTER}"
    rows = [row for query in _BEGINNINGS for row in connection.execute(query.format(more=more), given).fetchall()]
    return _summaries(connection, [trace_id for _, trace_id in sorted(rows, reverse=True)[:limit]])


def _age(found: TraceSummary) -> tuple[int, str]:
    return (found.first_ts, found.trace_id)


def _summary(connection: sqlite3.Connection, trace_id: str) -> TraceSummary | None:
    """All that is known of one trace, at this moment."""
    row = connection.execute(f"{_EVENTS} WHERE trace_id = ? GROUP BY trace_id", (trace_id,)).fetchone()
    pieces = connection.execute(f"{_PIECES} WHERE trace_id = ? {_PIECE_ORDER}", (trace_id,)).fetchall()
    spans, errors, *times = connection.execute(_SPANS, (trace_id,)).fetchone()
    logs, *log_times = connection.execute(_LOGS, (trace_id,)).fetchone()
    told = [_piece(each) for each in pieces]
    if not told and not spans and not logs:
        return _of_events(row) if row else None
    if not told:  # not projected yet
        moments = [each // 1000 for each in (*times, *log_times) if each is not None]
        told = [
            Piece(
                trace_id=trace_id, session_id=f"trace:{trace_id}", session_by="",
                first_at=min(moments), last_at=max(moments),
            )
        ]  # fmt: skip
    name = connection.execute(_ROOT, (trace_id,)).fetchone()
    found = _with_pieces(_of_events(row) if row else None, told)
    return replace(found, spans=spans, errors=errors, name=name[0] if name else found.name)


def _summaries(connection: sqlite3.Connection, trace_ids: Sequence[str]) -> list[TraceSummary]:
    """Of these traces, in this order."""
    found: dict[str, TraceSummary] = {}
    pieces: dict[str, list[Piece]] = {}
    for chunk in chunks(trace_ids):
        among = f"WHERE trace_id IN ({marks(chunk)})"
        events = connection.execute(f"{_EVENTS} {among} GROUP BY trace_id", chunk)
        found |= {row[0]: _of_events(row) for row in events}
        for row in connection.execute(f"{_PIECES} {among} {_PIECE_ORDER}", chunk):
            pieces.setdefault(row[0], []).append(_piece(row))
    for trace_id, told in pieces.items():
        found[trace_id] = _with_pieces(found.get(trace_id), told)
    return [found[trace_id] for trace_id in trace_ids if trace_id in found]


def _of_events(row: tuple[Any, ...]) -> TraceSummary:
    return TraceSummary(**dict(zip(_EVENT_FIELDS, row, strict=True)))


def _piece(row: tuple[Any, ...]) -> Piece:
    return Piece(**dict(zip(Piece.__struct_fields__, row, strict=True)))


def _with_pieces(found: TraceSummary | None, pieces: Sequence[Piece]) -> TraceSummary:
    """A trace of events, or none, and what its spans add; the earliest piece says the session."""
    first, last = min(piece.first_at for piece in pieces) * 1000, max(piece.last_at for piece in pieces) * 1000
    if found is None:
        found = TraceSummary(
            trace_id=pieces[0].trace_id, session_id=pieces[0].session_id, kind=max(piece.kind for piece in pieces),
            events=0, shared_steps=0, malformed=0, first_ts=first, last_ts=last,
        )  # fmt: skip
    return replace(
        found,
        first_ts=min(found.first_ts, first),
        last_ts=max(found.last_ts, last),
        spans=sum(piece.spans for piece in pieces),
        errors=sum(piece.errors for piece in pieces),
        name=next((piece.name for piece in pieces if piece.name), ""),
        session_by=pieces[0].session_by or None,
    )


def _alias(connection: sqlite3.Connection, otel_id: str) -> list[str]:
    found = connection.execute("SELECT trace_id FROM trace_aliases WHERE otel_trace_id = ?", (otel_id,)).fetchone()
    return [found[0]] if found and otel_trace_id(found[0]) == otel_id else []


def _beginning(connection: sqlite3.Connection, start: str) -> list[str]:
    """The one trace whose id begins so; none where there are several, or where too little is given."""
    if len(start) < MIN_BEGINNING:
        return []
    among = "WHERE trace_id >= :start AND trace_id < :end"
    # The least and the greatest of each table: two seeks, however many records the trace has.
    query = " UNION ".join(
        f"SELECT {which}(trace_id) FROM {table} {among}"
        for table in ("events", "spans", "logs")
        for which in ("min", "max")
    )
    found = connection.execute(query, {"start": start, "end": start + "\U0010ffff"}).fetchall()
    ids = {trace_id for (trace_id,) in found if trace_id is not None}
    return list(ids) if len(ids) == 1 else []

"""Reading: rows into contracts. Every query has an order, so that answers don't depend on arrival."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from dashcam.contracts.call import ModelCall
from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.identity import otel_trace_id
from dashcam.contracts.span import LogRecord, Span
from dashcam.errors import TraceNotFound
from dashcam.store.base import (
    Changes,
    EventFilter,
    Figure,
    Record,
    Source,
    TraceSummary,
)
from dashcam.store.sqlite.log import unpack

_EVENT = (
    'SELECT s.segment, e."offset", e.session_id, e.trace_id, e.step, e.kind, e.operation, e.ts, '
    "e.fields, e.marks, e.seq FROM events e JOIN sources s ON s.id = e.source_id"
)
_EVENT_FIELDS = Event.__struct_fields__
_SPAN_FIELDS = Span.__struct_fields__
_TRACE = (
    "SELECT trace_id, min(session_id), min(kind), count(*), count(*) - count(DISTINCT step), "
    "sum(marks & 1), min(ts), max(ts) FROM events"
)
MIN_BEGINNING = 4  # characters of an id that may stand for all of it
_FIGURES = {"source": "s.segment", "day": "r.day", "operation": "r.operation", "kind": "r.kind"}


def events(connection: sqlite3.Connection, wanted: EventFilter) -> Iterator[Event]:
    """Events in the order of their steps, then of their time, then of their place in the journals."""
    named = {"session_id": wanted.session_id, "trace_id": wanted.trace_id}
    named |= {"operation": wanted.operation, "kind": wanted.kind}
    given = {name: value for name, value in named.items() if value is not None}
    where = " AND ".join(f"e.{name} = :{name}" for name in given) or "1"
    # Between traces the clock orders; within one the step does.
    order = "e.step, e.ts" if wanted.trace_id is not None else "e.ts, e.step"
    sql = f'{_EVENT} WHERE {where} ORDER BY {order}, s.segment, e."offset" LIMIT :limit'
    for row in connection.execute(sql, {**given, "limit": -1 if wanted.limit is None else wanted.limit}):
        yield _event(row)


def changes(connection: sqlite3.Connection, after: str, limit: int) -> Changes:
    """What arrived after the cursor, oldest first, over the whole log."""
    seq = int(after or 0)
    found: list[Record] = []
    for query, build in (
        (f"{_EVENT} WHERE e.seq > ? ORDER BY e.seq LIMIT ?", _event),
        (_SPAN + " WHERE seq > ? ORDER BY seq LIMIT ?", _span),
        (_LOG + " WHERE seq > ? ORDER BY seq LIMIT ?", _log),
        (_ORPHAN + " WHERE o.seq > ? ORDER BY o.seq LIMIT ?", _orphan),
    ):
        found += [build(row) for row in connection.execute(query, (seq, limit))]
    found.sort(key=lambda record: record.seq)
    del found[limit:]
    return Changes(found, str(found[-1].seq) if found else after)


def trace(connection: sqlite3.Connection, trace_id: str, where: str) -> TraceSummary:
    """One trace by its id, by the id under which it left as OTLP, or by the beginning of its id if no other has it."""
    for candidate in (trace_id, *_alias(connection, trace_id), *_beginning(connection, trace_id)):
        row = connection.execute(f"{_TRACE} WHERE trace_id = ? GROUP BY trace_id", (candidate,)).fetchone()
        if row:
            return TraceSummary(**dict(zip(TraceSummary.__struct_fields__, row, strict=True)))
    raise TraceNotFound(trace_id, where)


def traces(connection: sqlite3.Connection, session_id: str) -> list[TraceSummary]:
    """The traces of one session, oldest first."""
    found = connection.execute(
        f"{_TRACE} WHERE session_id = ? GROUP BY trace_id ORDER BY min(ts), trace_id",
        (session_id,),
    )
    return [TraceSummary(**dict(zip(TraceSummary.__struct_fields__, row, strict=True))) for row in found]


def shared_steps(connection: sqlite3.Connection) -> int:
    """How many records stand at a step that another record of their trace has too, beyond the first."""
    row = connection.execute(
        "SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM events GROUP BY trace_id, step) WHERE n > 1"
    ).fetchone()
    return int(row[0])


_SPAN = "SELECT trace_id, span_id, parent_span_id, name, start_ns, end_ns, status, body, seq FROM spans"
_LOG = "SELECT trace_id, span_id, ts, severity, resource, body, seq FROM logs"
_ORPHAN = (
    'SELECT s.segment, o."offset", o.reason, o.body, o.operation, o.ts, o.seq '
    "FROM orphans o JOIN sources s ON s.id = o.source_id"
)


def spans(connection: sqlite3.Connection, trace_id: str) -> list[Span]:
    query = f"{_SPAN} WHERE trace_id = ? ORDER BY start_ns, span_id"
    return [_span(row) for row in connection.execute(query, (trace_id,))]


def logs(connection: sqlite3.Connection, trace_id: str) -> list[LogRecord]:
    query = f"{_LOG} WHERE trace_id = ? ORDER BY ts, digest"
    return [_log(row) for row in connection.execute(query, (trace_id,))]


def spans_with_digest(connection: sqlite3.Connection) -> Iterator[tuple[Span, str]]:
    for row in connection.execute(_SPAN.replace(" FROM", ", digest FROM")):
        yield _span(row[:-1]), row[-1]


def logs_with_digest(connection: sqlite3.Connection) -> Iterator[tuple[LogRecord, str]]:
    for row in connection.execute(_LOG.replace(" FROM", ", digest FROM")):
        yield _log(row[:-1]), row[-1]


def orphans(connection: sqlite3.Connection, limit: int) -> Iterator[Orphan]:
    """The newest first."""
    for row in connection.execute(f"{_ORPHAN} ORDER BY o.seq DESC LIMIT ?", (limit,)):
        yield _orphan(row)


def model_calls(
    connection: sqlite3.Connection, trace_id: str | None, session_id: str | None, message_id: str | None
) -> list[ModelCall]:
    """The calls of a trace by their steps, or those of a session or a message by their time. Of two at one step and time the rowid
    decides: a trace is replaced as a whole, in the order in which its events are read.
    """
    names = ModelCall.__struct_fields__
    given = {"trace_id": trace_id, "session_id": session_id, "message_id": message_id}
    where = " AND ".join(f"{name} = :{name}" for name, value in given.items() if value is not None) or "1"
    if message_id is not None:
        where = where.replace("session_id", "+session_id", 1)  # a message's calls are few, a session's are not
    order = "ts, trace_id, step, rowid" if trace_id is None else "step, ts, rowid"
    query = f"SELECT {', '.join(names)} FROM model_calls WHERE {where} ORDER BY {order}"
    found = (dict(zip(names, row, strict=True)) for row in connection.execute(query, given))
    return [ModelCall(**{**row, "redacted": bool(row["redacted"])}) for row in found]


def sources(connection: sqlite3.Connection) -> list[Source]:
    query = 'SELECT segment, "offset", path, inode, check_json FROM sources ORDER BY id'
    return [
        Source(segment=segment, offset=offset, path=path, inode=inode, check=check)
        for segment, offset, path, inode, check in connection.execute(query)
    ]


def figures(connection: sqlite3.Connection, name: str, since: str, until: str) -> list[Figure]:
    """The daily rollups between two days, summed by source, day, operation or kind."""
    query = (
        f"SELECT {_FIGURES[name]} AS label, sum(r.events), sum(r.orphans), sum(r.malformed), sum(r.redacted) "
        "FROM rollups r JOIN sources s ON s.id = r.source_id WHERE r.day BETWEEN ? AND ? GROUP BY label ORDER BY label"
    )
    return [
        Figure(by=label, events=events, orphans=orphans, malformed=malformed, redacted=redacted)
        for label, events, orphans, malformed, redacted in connection.execute(query, (since, until))
    ]


def _alias(connection: sqlite3.Connection, otel_id: str) -> list[str]:
    found = connection.execute("SELECT trace_id FROM trace_aliases WHERE otel_trace_id = ?", (otel_id,)).fetchone()
    return [found[0]] if found and otel_trace_id(found[0]) == otel_id else []


def _beginning(connection: sqlite3.Connection, start: str) -> list[str]:
    """The one trace whose id begins so; none where there are several, or where too little is given."""
    if len(start) < MIN_BEGINNING:
        return []
    found = connection.execute(
        "SELECT DISTINCT trace_id FROM events WHERE trace_id >= ? AND trace_id < ? LIMIT 2",
        (start, start + "\U0010ffff"),
    ).fetchall()
    return [found[0][0]] if len(found) == 1 else []


def _event(row: tuple[Any, ...]) -> Event:
    return Event(**dict(zip(_EVENT_FIELDS, row, strict=True)))


def _span(row: tuple[Any, ...]) -> Span:
    return Span(**{**dict(zip(_SPAN_FIELDS, row, strict=True)), "body": unpack(row[7])})


def _log(row: tuple[Any, ...]) -> LogRecord:
    trace_id, span_id, ts, severity, resource, body, seq = row
    said = (unpack(resource), unpack(body))
    return LogRecord(
        trace_id=trace_id, span_id=span_id, ts=ts, severity=severity, resource=said[0], body=said[1], seq=seq
    )


def _orphan(row: tuple[Any, ...]) -> Orphan:
    return Orphan(**dict(zip(Orphan.__struct_fields__, row, strict=True)))

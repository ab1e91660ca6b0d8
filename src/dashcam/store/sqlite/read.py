"""Reading: rows into contracts. Every query has an order, so that answers don't depend on arrival."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from dashcam.contracts.call import ModelCall
from dashcam.contracts.event import Event, Orphan
from dashcam.store.base import (
    Changes,
    EventFilter,
    Figure,
    Record,
    Source,
    TraceLog,
)
from dashcam.store.sqlite.backlog import OF_CALLS
from dashcam.store.sqlite.spans import logs_after, logs_among, spans_after, spans_among
from dashcam.store.sqlite.statements import chunks, marks, one_moment

_EVENT = (
    'SELECT s.segment, e."offset", e.session_id, e.trace_id, e.step, e.kind, e.operation, e.ts, '
    "e.fields, e.marks, e.seq FROM events e JOIN sources s ON s.id = e.source_id"
)
_EVENT_FIELDS = Event.__struct_fields__
_CALL = f"SELECT {', '.join(ModelCall.__struct_fields__)} FROM model_calls"
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


def trace_logs(connection: sqlite3.Connection, trace_ids: Sequence[str]) -> dict[str, TraceLog]:
    """What the log holds of these traces, read together: neighbours share what they are packed in."""
    found = {trace_id: TraceLog() for trace_id in trace_ids}
    for chunk in chunks(trace_ids):
        among = f"trace_id IN ({marks(chunk)})"
        told = f'{_EVENT} WHERE e.{among} AND {OF_CALLS} ORDER BY e.step, e.ts, s.segment, e."offset"'
        for event in map(_event, connection.execute(told, chunk)):
            found[event.trace_id].calls.append(event)
        for span in spans_among(connection, among, chunk):
            found[span.trace_id].spans.append(span)
        for log in logs_among(connection, among, chunk):
            found[log.trace_id].logs.append(log)
    return found


def changes(connection: sqlite3.Connection, after: str, limit: int) -> Changes:
    """What arrived after the cursor, oldest first, over the whole log."""
    seq = int(after or 0)
    found: list[Record] = []
    events = f"{_EVENT} WHERE e.seq > ? ORDER BY e.seq LIMIT ?"
    orphans = f"{_ORPHAN} WHERE o.seq > ? ORDER BY o.seq LIMIT ?"
    with one_moment(connection):  # or what is committed between two of these would be passed over
        found += [_event(row) for row in connection.execute(events, (seq, limit))]
        found += spans_after(connection, seq, limit)
        found += logs_after(connection, seq, limit)
        found += [_orphan(row) for row in connection.execute(orphans, (seq, limit))]
    found.sort(key=lambda record: record.seq)
    del found[limit:]
    return Changes(found, str(found[-1].seq) if found else after)


def shared_steps(connection: sqlite3.Connection) -> int:
    """How many records stand at a step that another record of their trace has too, beyond the first."""
    row = connection.execute(
        "SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM events GROUP BY trace_id, step) WHERE n > 1"
    ).fetchone()
    return int(row[0])


_ORPHAN = (
    'SELECT s.segment, o."offset", o.reason, o.body, o.operation, o.ts, o.seq '
    "FROM orphans o JOIN sources s ON s.id = o.source_id"
)


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
    given = {"trace_id": trace_id, "session_id": session_id, "message_id": message_id}
    where = " AND ".join(f"{name} = :{name}" for name, value in given.items() if value is not None) or "1"
    if message_id is not None:
        where = where.replace("session_id", "+session_id", 1)  # a message's calls are few, a session's are not
    order = "ts, trace_id, step, rowid" if trace_id is None else "step, ts, rowid"
    return list(map(_call, connection.execute(f"{_CALL} WHERE {where} ORDER BY {order}", given)))


def calls_answered_by(connection: sqlite3.Connection, response_ids: Sequence[str]) -> list[ModelCall]:
    """The calls with these response ids, whichever trace tells them."""
    found: list[ModelCall] = []
    for chunk in chunks(response_ids):
        query = f"{_CALL} WHERE response_id IN ({marks(chunk)}) ORDER BY trace_id, step, rowid"
        found += map(_call, connection.execute(query, chunk))
    return found


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


def _call(row: tuple[Any, ...]) -> ModelCall:
    told = dict(zip(ModelCall.__struct_fields__, row, strict=True))
    return ModelCall(**{**told, "redacted": bool(told["redacted"])})


def _event(row: tuple[Any, ...]) -> Event:
    return Event(**dict(zip(_EVENT_FIELDS, row, strict=True)))


def _orphan(row: tuple[Any, ...]) -> Orphan:
    return Orphan(**dict(zip(Orphan.__struct_fields__, row, strict=True)))

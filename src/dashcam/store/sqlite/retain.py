"""Letting go: what is too old or too much, then what nothing refers to any more, then the space."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from operator import add

from dashcam.store.base import Projection, Retained, Retention
from dashcam.store.sqlite import backlog, facts, projected, projections, search
from dashcam.store.sqlite.log import DAY
from dashcam.store.sqlite.spans import remove_packs
from dashcam.store.sqlite.statements import chunks, insert_rows, marks
from dashcam.store.sqlite.sweep import sweep

Transaction = Callable[[], AbstractContextManager[None]]

CHUNK = 5_000  # rows a transaction, so that readers and the log never wait long
_WITH_SESSIONS = 5  # a span or a log record takes so much longer than an event: what is projected from it goes, too
SESSIONS = 20  # chat sessions a transaction
_TIME = {"events": "ts", "spans": "max(start_ns, end_ns) / 1000", "logs": "ts", "orphans": "ts"}
# Of what spans say about a third is left when they are packed.
_SIZE = {"events": "length(fields)", "spans": "body_size / 3", "logs": "body_size / 3", "orphans": "length(body)"}
_BEGINNING = -(2**63)
_ROW = 150  # bytes that a row takes beside its body, about; its places in the indexes are the most of it
# In microseconds. One that says to be of the far future is as new as any, and no larger than SQLite can count.
_ACTIVE = f"min(updated_at, {10**15}) * 1000"
# Projected sessions go with the spans that tell them.
_RECORDED = "NOT EXISTS (SELECT 1 FROM projected_sessions AS p WHERE p.session_id = chat_sessions.id)"
# A part's words stand in the index for search as well.
_SESSIONS = (
    f"SELECT {_ACTIVE} AS time, (SELECT coalesce(sum(length(data_json) * 1.4 + 4 * {_ROW}), 0) FROM chat_parts "
    f"WHERE session_id = chat_sessions.id) + (SELECT coalesce(sum(length(metadata_json) + 2 * {_ROW}), 0) "
    f"FROM chat_messages WHERE session_id = chat_sessions.id) + 4 * {_ROW} AS size FROM chat_sessions WHERE {_RECORDED}"
)
_SIZES = " UNION ALL ".join(
    [f"SELECT {time} AS time, {_SIZE[table]} + {_ROW} AS size FROM {table}" for table, time in _TIME.items()]
    + [_SESSIONS]
)
# Tables that the rollups count: their kind there, and what one row adds to events, malformed, redacted, orphans.
_COUNTED = {"events": ("kind", "1, marks & 1, (marks & 2) / 2, 0"), "orphans": ("''", "0, 0, 0, 1")}
_WITHOUT_SPANS = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table} AS s WHERE s.trace_id = model_calls.trace_id)" for table in ("spans", "logs")
)
_CALLS_WITHOUT_EVENT = (
    "DELETE FROM model_calls WHERE trace_id IN (SELECT trace_id FROM temp.chunk_traces) AND ts < ? "
    "AND NOT EXISTS (SELECT 1 FROM events AS e WHERE e.trace_id = model_calls.trace_id AND e.step = model_calls.step "
    "AND e.session_id = model_calls.session_id AND e.ts = model_calls.ts AND e.operation IN ('model_call', 'model_request')) "
    f"AND {_WITHOUT_SPANS}"
)
_BY_TRACE = (
    "SELECT session_id, trace_id, kind, count(*) FROM events WHERE seq IN (SELECT seq FROM temp.chunk) GROUP BY 1, 2, 3"
)


def retain(connection: sqlite3.Connection, transaction: Transaction, policy: Retention) -> Retained:
    """Remove what the policy lets go of, in steps that can each be interrupted."""
    gone = dict.fromkeys((*_TIME, "chat_sessions"), 0)
    if policy.before is not None:
        _remove_before(connection, transaction, policy.before, gone)
    swept = _sweep(connection, transaction)
    shrink(connection)
    while policy.max_bytes is not None and size_of(connection) > policy.max_bytes:
        # As many of the oldest as there are too many bytes, and a little more, so that few rounds do it.
        before = _oldest_part(connection, 1.02 - policy.max_bytes / size_of(connection))
        if before is None:
            break
        _remove_before(connection, transaction, before, gone)
        more = _sweep(connection, transaction)
        swept = (swept[0] + more[0], swept[1] + more[1])
        shrink(connection)
    return Retained(**gone, contents=swept[0], contexts=swept[1], bytes=size_of(connection))


def size_of(connection: sqlite3.Connection) -> int:
    """The bytes that the data takes up."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def shrink(connection: sqlite3.Connection) -> None:
    """Give free pages back to the disk, a few at a time, and empty the write-ahead log."""
    while connection.execute("PRAGMA freelist_count").fetchone()[0]:
        # Fetched to the end: the pragma frees a page for each row that is asked for.
        connection.execute("PRAGMA incremental_vacuum(2000)").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _remove_before(connection: sqlite3.Connection, transaction: Transaction, before: int, gone: dict[str, int]) -> None:
    """Chunk by chunk, each with all that was derived from it, so that a kill between two leaves a sound store."""
    chat = gone["chat_sessions"] + gone["spans"] + gone["logs"]
    for table in _TIME:
        last = _BEGINNING
        while chunk := _next_chunk(connection, table, before, last):
            with transaction():
                gone[table] += _remove_chunk(connection, table, chunk, before)
            last = chunk[-1]
    while removed := _remove_sessions(connection, transaction, before):
        gone["chat_sessions"] += removed
    if gone["chat_sessions"] + gone["spans"] + gone["logs"] > chat:
        search.squeeze(connection, transaction)
    with transaction():  # the chunks have done it for a sound store; this mends one that was not
        connection.execute(f"DELETE FROM model_calls WHERE ts < ? AND {_WITHOUT_SPANS}", (before,))
        projections.count_again(connection, before)


def _next_chunk(connection: sqlite3.Connection, table: str, before: int, last: int) -> list[int]:
    """Rows that may go, from after `last`. Looked for outside of a transaction: that may take long and holds up nobody."""
    most = CHUNK if table in _COUNTED else max(CHUNK // _WITH_SESSIONS, 1)
    query = f"SELECT seq FROM {table} WHERE seq > ? AND {_TIME[table]} < ? ORDER BY seq LIMIT ?"
    return [seq for (seq,) in connection.execute(query, (last, before, most))]


def _remove_chunk(connection: sqlite3.Connection, table: str, chunk: Sequence[int], before: int) -> int:
    _drop_chunk(connection)
    connection.execute("CREATE TEMP TABLE chunk (seq INTEGER PRIMARY KEY)")
    insert_rows(connection, "INSERT INTO temp.chunk (seq)", [(seq,) for seq in chunk])
    if table in _COUNTED:
        _uncount(connection, table)
    counts = []
    traces = f"SELECT DISTINCT trace_id FROM {table} WHERE seq IN (SELECT seq FROM temp.chunk)"
    touched = [] if table in _COUNTED else [trace_id for (trace_id,) in connection.execute(traces)]
    if table == "events":
        counts = connection.execute(_BY_TRACE).fetchall()
        connection.execute(
            f"CREATE TEMP TABLE chunk_traces AS {traces} AND operation IN ('model_call', 'model_request')"
        )
    removed = connection.execute(f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM temp.chunk)").rowcount
    if table == "events":
        connection.execute(_CALLS_WITHOUT_EVENT, (before,))
        facts.uncount_events(connection, counts)
        backlog.mark(connection, _with_spans(connection))
    if table not in _COUNTED:
        remove_packs(connection, chunk[0], chunk[-1])
        _project_again(connection, touched)
    _drop_chunk(connection)
    return removed


def _with_spans(connection: sqlite3.Connection) -> list[str]:
    """The traces of the chunk that spans or log records tell as well."""
    found = connection.execute(
        "SELECT trace_id FROM temp.chunk_traces AS c WHERE EXISTS (SELECT 1 FROM spans AS s WHERE s.trace_id = c.trace_id) "
        "OR EXISTS (SELECT 1 FROM logs AS l WHERE l.trace_id = c.trace_id)"
    )
    return [trace_id for (trace_id,) in found]


def _project_again(connection: sqlite3.Connection, traces: Sequence[str]) -> None:
    """After spans or log records of these went: what was projected goes with the last record of a trace."""
    left: set[str] = set()
    for chunk in chunks(traces):
        for table in ("spans", "logs", "events"):
            query = f"SELECT DISTINCT trace_id FROM {table} WHERE trace_id IN ({marks(chunk)})"
            left |= {trace_id for (trace_id,) in connection.execute(query, chunk)}
    ended = [trace_id for trace_id in traces if trace_id not in left]
    projections.replace(connection, dict.fromkeys(ended, Projection()), tell=False)
    for chunk in chunks(ended):
        connection.execute(f"DELETE FROM dirty_traces WHERE trace_id IN ({marks(chunk)})", chunk)
    backlog.mark(connection, left)


def _remove_sessions(connection: sqlite3.Connection, transaction: Transaction, before: int) -> int:
    """A few chat sessions that were last active before that moment (microseconds), each as a whole."""
    query = f"SELECT id FROM chat_sessions WHERE {_ACTIVE} < ? AND {_RECORDED} ORDER BY updated_at, id LIMIT ?"
    with transaction():
        gone = [session_id for (session_id,) in connection.execute(query, (before, SESSIONS))]
        for session_id in gone:
            parts = connection.execute("SELECT id FROM chat_parts WHERE session_id = ?", (session_id,)).fetchall()
            search.take_out(connection, [part_id for (part_id,) in parts])
            connection.execute("DELETE FROM chat_sessions WHERE id = ?", (session_id,))
            facts.forget_chat(connection, session_id)
            projected.mark_session(connection, session_id)  # what is left of its spans tells it from now on
    return len(gone)


def _uncount(connection: sqlite3.Connection, table: str) -> None:
    """Take what is about to go from the rollups of its days, without a look at what stays."""
    kind, marks = _COUNTED[table]
    rows = connection.execute(
        f"SELECT ts, source_id, {kind}, operation, {marks} FROM {table} WHERE seq IN (SELECT seq FROM temp.chunk)"
    )
    counts: dict[tuple[int, int, str, str], list[int]] = {}
    for ts, source, kind, operation, *told in rows:
        sums = counts.setdefault((ts // DAY, source, kind, operation), [0, 0, 0, 0])
        sums[:] = map(add, sums, told)
    connection.executemany(
        "UPDATE rollups SET events = events - ?, malformed = malformed - ?, redacted = redacted - ?, "
        "orphans = orphans - ? WHERE day = date(? * 86400, 'unixepoch') AND source_id = ? AND kind = ? AND operation = ?",
        [(*sums, *key) for key, sums in counts.items()],
    )
    connection.executemany(
        "DELETE FROM rollups WHERE day = date(? * 86400, 'unixepoch') AND events = 0 AND orphans = 0",
        [(day,) for day in {key[0] for key in counts}],
    )


def _drop_chunk(connection: sqlite3.Connection) -> None:
    for name in ("chunk", "chunk_traces"):
        connection.execute(f"DROP TABLE IF EXISTS temp.{name}")


def _sweep(connection: sqlite3.Connection, transaction: Transaction) -> tuple[int, int]:
    if backlog.has_new_events(connection):
        return 0, 0  # a row that isn't derived yet may refer to what looks unused; it goes the next time
    with transaction():
        swept = sweep(connection)
        # A derived id is no use without its trace.
        connection.execute(
            "DELETE FROM trace_aliases AS a WHERE NOT EXISTS (SELECT 1 FROM events AS e WHERE e.trace_id = a.trace_id) "
            "AND NOT EXISTS (SELECT 1 FROM spans AS s WHERE s.trace_id = a.trace_id) "
            "AND NOT EXISTS (SELECT 1 FROM logs AS l WHERE l.trace_id = a.trace_id)"
        )
    return swept.contents, swept.contexts


def _oldest_part(connection: sqlite3.Connection, share: float) -> int | None:
    """The moment before which this share of the log's bytes lies, or None when there is nothing left.

    One moment for all tables: what is old goes, whatever it is; a chat session as a whole.
    """
    total = connection.execute(f"SELECT sum(size) FROM ({_SIZES})").fetchone()[0]
    if not total:
        return None
    row = connection.execute(
        f"SELECT time FROM (SELECT time, sum(size) OVER (ORDER BY time) AS up_to FROM ({_SIZES})) "
        "WHERE up_to >= ? ORDER BY time LIMIT 1",
        (total * min(share, 1.0),),
    ).fetchone()
    return int(row[0]) + 1

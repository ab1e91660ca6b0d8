"""Letting go: what is too old or too much, then what nothing refers to any more, then the space."""

from __future__ import annotations

import sqlite3

from dashcam.store.base import Retained, Retention
from dashcam.store.sqlite import projections
from dashcam.store.sqlite.sweep import sweep

CHUNK = 5_000  # rows a transaction, so that readers and the log never wait long
_TIME = {"events": "ts", "spans": "end_ns / 1000", "logs": "ts", "orphans": "ts"}


def retain(connection: sqlite3.Connection, policy: Retention) -> Retained:
    """Remove what the policy lets go of, in steps that can each be interrupted."""
    gone = dict.fromkeys(_TIME, 0)
    if policy.before is not None:
        _remove_before(connection, policy.before, gone)
    swept = _sweep(connection)
    shrink(connection)
    while policy.max_bytes is not None and size_of(connection) > policy.max_bytes:
        # As many of the oldest as there are too many bytes, and a little more, so that few rounds do it.
        before = _oldest_part(connection, 1.02 - policy.max_bytes / size_of(connection))
        if before is None:
            break
        _remove_before(connection, before, gone)
        more = _sweep(connection)
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


def _remove_before(connection: sqlite3.Connection, before: int, gone: dict[str, int]) -> None:
    for table, time in _TIME.items():
        while True:
            connection.execute("BEGIN IMMEDIATE")
            removed = connection.execute(
                f"DELETE FROM {table} WHERE seq IN (SELECT seq FROM {table} WHERE {time} < ? LIMIT ?)",
                (before, CHUNK),
            ).rowcount
            gone[table] += removed
            if removed < CHUNK:
                connection.execute("DELETE FROM model_calls WHERE ts < ?", (before,))
                projections.count_again(connection, before)
            connection.execute("COMMIT")
            if removed < CHUNK:
                break


def _sweep(connection: sqlite3.Connection) -> tuple[int, int]:
    if projections.unprojected(connection, 1).trace_ids:
        return 0, 0  # a row that isn't derived yet may refer to what looks unused; it goes the next time
    connection.execute("BEGIN IMMEDIATE")
    swept = sweep(connection)
    # A derived id is no use without its trace.
    connection.execute(
        "DELETE FROM trace_aliases WHERE trace_id NOT IN (SELECT trace_id FROM events) "
        "AND trace_id NOT IN (SELECT trace_id FROM spans)"
    )
    connection.execute("COMMIT")
    return swept.contents, swept.contexts


def _oldest_part(connection: sqlite3.Connection, share: float) -> int | None:
    """The moment before which this share of the events lies, or None when there is nothing left."""
    count, newest = connection.execute("SELECT count(*), max(ts) FROM events").fetchone()
    if not count:
        return None
    row = connection.execute("SELECT ts FROM events ORDER BY ts LIMIT 1 OFFSET ?", (int(count * share),)).fetchone()
    return int(row[0] if row else newest) + 1

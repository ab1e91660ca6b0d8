"""Checking a whole store: the file, the log, what is derived, and every content and chain."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from dashcam.store.sqlite import read
from dashcam.store.sqlite.verify import verify_contents


def verify(connection: sqlite3.Connection) -> Iterator[str]:
    """One sentence for everything that is not as it should be; nothing for a sound store."""
    yield from _verify_file(connection)
    yield from _verify_log(connection)
    yield from verify_contents(connection)


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
    for span, digest in read.spans_with_digest(connection):
        if span.digest != digest:
            yield f"Span {span.span_id} of trace {span.trace_id} has changed: it hashes to {span.digest}."
    for record, digest in read.logs_with_digest(connection):
        if record.digest != digest:
            yield f"Log record {digest} has changed: it hashes to {record.digest}."

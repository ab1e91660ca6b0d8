"""Layer 1: spans and log records. A batch is compared with what is there in Python and then written as it stands,
the bodies of neighbours together in one pack.

Works inside the transaction that the caller holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, get_args

import msgspec

from dashcam.contracts.span import LogRecord, Ref, Span, Status
from dashcam.store.sqlite.packing import pack, unpack
from dashcam.store.sqlite.statements import chunks, insert_rows, marks

REDACTED = 1
STATUSES: tuple[Status, ...] = get_args(Status)  # in the order of their numbers
ERROR = STATUSES.index("error")
PACK = 32_768  # bytes that a pack holds at most, but for a body that is larger by itself: to read one is to unpack all
_MOST_SCOPES = 10_000  # remembered; who sends more of them looks each up

_Key = tuple[str, str]
_Rank = tuple[int, bytes]

# CROSS JOIN: from each pair to its span, and not through all spans.
_KNOWN_SPANS = (
    "SELECT s.trace_id, s.span_id, s.end_ns, s.digest, s.seq FROM (VALUES {pairs}) AS told "
    "CROSS JOIN spans AS s ON s.trace_id = told.column1 AND s.span_id = told.column2"
)
_PUT_SPANS = (
    "INSERT INTO spans (seq, trace_id, span_id, parent_span_id, name, start_ns, end_ns, status, digest, scope_id, "
    "refs, marks, body_at, body_size)"
)
_PUT_LOGS = (
    "INSERT INTO logs (seq, digest, trace_id, span_id, ts, name, severity, scope_id, refs, marks, body_at, body_size)"
)  # fmt: skip
SPANS = (
    "SELECT seq, trace_id, span_id, parent_span_id, name, start_ns, end_ns, status, scope_id, refs, marks, "
    "body_at, body_size FROM spans"
)
LOGS = "SELECT seq, trace_id, span_id, ts, name, severity, scope_id, refs, marks, body_at, body_size FROM logs"

_PACK = "SELECT id, last, CAST(body AS BLOB) FROM packs WHERE id <= ? ORDER BY id DESC LIMIT 1"
_REMOVE_PACKS = (
    "DELETE FROM packs WHERE id BETWEEN coalesce((SELECT max(id) FROM packs WHERE id <= :first), 0) AND :last "
    "AND NOT EXISTS (SELECT 1 FROM spans WHERE seq BETWEEN packs.id AND packs.last) "
    "AND NOT EXISTS (SELECT 1 FROM logs WHERE seq BETWEEN packs.id AND packs.last)"
)

_encode_refs = msgspec.json.Encoder().encode
_decode_refs = msgspec.json.Decoder(tuple[Ref, ...]).decode


class SpanWriter:
    """Keeps spans and log records, and remembers the numbers of the scopes around them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._scope_ids: dict[bytes, int] = {}

    def put_spans(self, spans: Sequence[Span], seq: int) -> int:
        """Add spans, numbered from after `seq`; of two bodies of one the greater rank stands. Returns how many changed."""
        told: dict[_Key, tuple[_Rank, Span]] = {}
        for span in spans:
            key, rank = (span.trace_id, span.span_id), span.rank
            if key not in told or rank > told[key][0]:
                told[key] = (rank, span)
        beaten = []
        for key, rank, known_seq in self._known_spans(list(told)):
            if told[key][0] > rank:
                beaten.append(known_seq)
            else:
                del told[key]
        for chunk in chunks(beaten):
            self._connection.execute(f"DELETE FROM spans WHERE seq IN ({marks(chunk)})", chunk)
        scope_ids = self._ids_of({span.scope for _, span in told.values()})
        places = self._put_packs([span.body for _, span in told.values()], seq)
        rows = [
            (number, span.trace_id, span.span_id, span.parent_span_id, span.name, span.start_ns, span.end_ns)
            + (STATUSES.index(span.status), digest, scope_ids[span.scope], _refs(span), _marks(span), *place)
            for number, (((_, digest), span), place) in enumerate(zip(told.values(), places, strict=True), seq + 1)
        ]
        insert_rows(self._connection, _PUT_SPANS, rows)
        return len(rows)

    def put_logs(self, logs: Sequence[LogRecord], seq: int) -> int:
        """Add the log records that are not there yet, numbered from after `seq`; return how many."""
        told = {record.digest: record for record in logs}
        for chunk in chunks(list(told)):
            known = self._connection.execute(f"SELECT digest FROM logs WHERE digest IN ({marks(chunk)})", chunk)
            for (digest,) in known.fetchall():
                del told[digest]
        scope_ids = self._ids_of({record.scope for record in told.values()})
        places = self._put_packs([record.body for record in told.values()], seq)
        rows = [
            (number, digest, record.trace_id, record.span_id, record.ts, record.name, record.severity)
            + (scope_ids[record.scope], _refs(record), _marks(record), *place)
            for number, ((digest, record), place) in enumerate(zip(told.items(), places, strict=True), seq + 1)
        ]
        insert_rows(self._connection, _PUT_LOGS, rows)
        return len(rows)

    def _known_spans(self, keys: Sequence[_Key]) -> Iterator[tuple[_Key, _Rank, int]]:
        """What is there of these: whose, its rank, its number."""
        for chunk in chunks(keys):
            query = _KNOWN_SPANS.format(pairs=",".join(["(?,?)"] * len(chunk)))
            given = [each for key in chunk for each in key]
            for trace_id, span_id, end_ns, digest, seq in self._connection.execute(query, given).fetchall():
                yield (trace_id, span_id), (end_ns, digest), seq

    def _put_packs(self, bodies: Sequence[bytes], seq: int) -> list[tuple[int, int]]:
        """Keep the bodies of the records from after `seq`; return where in its pack each is, and its size."""
        places: list[tuple[int, int]] = []
        rows: list[tuple[int, int, bytes]] = []
        first, filled = 0, 0
        for number, body in enumerate(bodies):
            if filled and filled + len(body) > PACK:
                rows.append((seq + 1 + first, seq + number, pack(b"".join(bodies[first:number]))))
                first, filled = number, 0
            places.append((filled, len(body)))
            filled += len(body)
        if filled:
            rows.append((seq + 1 + first, seq + len(bodies), pack(b"".join(bodies[first:]))))
        insert_rows(self._connection, "INSERT INTO packs (id, last, body)", rows)
        return places

    def _ids_of(self, scopes: set[bytes]) -> dict[bytes, int]:
        """The number of each scope, new ones kept."""
        if len(self._scope_ids) > _MOST_SCOPES:
            self._scope_ids.clear()
        unknown = {scope_digest(scope): scope for scope in scopes if scope not in self._scope_ids}
        if unknown:
            rows = [(digest, pack(scope)) for digest, scope in unknown.items()]
            insert_rows(self._connection, "INSERT INTO scopes (digest, body)", rows, "ON CONFLICT DO NOTHING")
            for chunk in chunks(list(unknown)):
                found = self._connection.execute(
                    f"SELECT digest, id FROM scopes WHERE digest IN ({marks(chunk)})", chunk
                )
                self._scope_ids.update((unknown[digest], number) for digest, number in found)
        return self._scope_ids


def remove_packs(connection: sqlite3.Connection, first: int, last: int) -> None:
    """After records with a `seq` from `first` to `last` went: remove the packs that none is left of."""
    connection.execute(_REMOVE_PACKS, {"first": first, "last": last})


def scope_digest(scope: bytes) -> bytes:
    return sha256(scope).digest()[:16]


def spans(connection: sqlite3.Connection, trace_id: str) -> list[Span]:
    """The spans of a trace as they began."""
    return spans_among(connection, "trace_id = ?", [trace_id])


def logs(connection: sqlite3.Connection, trace_id: str) -> list[LogRecord]:
    """The log records of a trace by their time."""
    return logs_among(connection, "trace_id = ?", [trace_id])


def spans_among(connection: sqlite3.Connection, condition: str, given: Sequence[str]) -> list[Span]:
    """The spans for which a condition holds, as they began."""
    rows = connection.execute(f"{SPANS} WHERE {condition} ORDER BY start_ns, span_id", given).fetchall()
    return spans_of(connection, rows)


def logs_among(connection: sqlite3.Connection, condition: str, given: Sequence[str]) -> list[LogRecord]:
    """The log records for which a condition holds, by their time."""
    rows = connection.execute(f"{LOGS} WHERE {condition} ORDER BY ts, digest", given).fetchall()
    return logs_of(connection, rows)


def spans_after(connection: sqlite3.Connection, seq: int, limit: int) -> list[Span]:
    rows = connection.execute(f"{SPANS} WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)).fetchall()
    return spans_of(connection, rows)


def logs_after(connection: sqlite3.Connection, seq: int, limit: int) -> list[LogRecord]:
    rows = connection.execute(f"{LOGS} WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)).fetchall()
    return logs_of(connection, rows)


def spans_of(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[Span]:
    """Rows of SPANS as they were told."""
    scopes, bodies = _scopes(connection, {row[8] for row in rows}), _bodies(connection, rows)
    return [
        Span(
            trace_id=trace_id, span_id=span_id, parent_span_id=parent, name=name, start_ns=start_ns, end_ns=end_ns,
            status=STATUSES[status] if 0 <= status <= ERROR else "unset", body=bodies[seq],
            scope=scopes.get(scope_id, b""), refs=_refs_of(refs), redacted=bool(marks & REDACTED), seq=seq,
        )
        for seq, trace_id, span_id, parent, name, start_ns, end_ns, status, scope_id, refs, marks, *_ in rows
    ]  # fmt: skip


def logs_of(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> list[LogRecord]:
    """Rows of LOGS as they were told."""
    scopes, bodies = _scopes(connection, {row[6] for row in rows}), _bodies(connection, rows)
    return [
        LogRecord(
            trace_id=trace_id, span_id=span_id, ts=ts, name=name, severity=severity, body=bodies[seq],
            scope=scopes.get(scope_id, b""), refs=_refs_of(refs), redacted=bool(marks & REDACTED), seq=seq,
        )
        for seq, trace_id, span_id, ts, name, severity, scope_id, refs, marks, *_ in rows
    ]  # fmt: skip


def _bodies(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> dict[int, bytes]:
    """The body of each row, by its `seq`. Each pack is unpacked once."""
    found: dict[int, bytes] = {}
    first, last, raw = 0, -1, b""
    for seq, at, size in sorted((row[0], row[-2], row[-1]) for row in rows):
        if size and not first <= seq <= last:
            first, last, packed = connection.execute(_PACK, (seq,)).fetchone() or (0, -1, b"")
            raw = unpack(packed) if first <= seq <= last else b""
        found[seq] = raw[at : at + size]
        if len(found[seq]) != size:
            raise sqlite3.DatabaseError(f"the body of record {seq} is missing")
    return found


def _scopes(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for chunk in chunks(list(ids)):
        rows = connection.execute(f"SELECT id, body FROM scopes WHERE id IN ({marks(chunk)})", chunk)
        found.update((number, unpack(body)) for number, body in rows)
    return found


def _refs(record: Span | LogRecord) -> str | None:
    return _encode_refs(record.refs).decode() if record.refs else None


def _refs_of(stored: str | None) -> tuple[Ref, ...]:
    if stored is None:
        return ()
    try:
        return _decode_refs(stored)
    except (ValueError, RecursionError) as error:
        raise sqlite3.DatabaseError(f"the references of a span are damaged: {error}") from error


def _marks(record: Span | LogRecord) -> int:
    return REDACTED if record.redacted else 0

"""Layer 1: appending to the log.

Rows go in through statements of many rows: beside busy Python code every statement is one wait for
the GIL, so `executemany`, which gives it away at every row, falls to a fiftieth of its rate.
"""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import astuple

from dashcam.contracts.event import MALFORMED, REDACTED, Event, Orphan
from dashcam.contracts.identity import is_otel_trace_id, otel_trace_id
from dashcam.contracts.span import LogRecord, Span
from dashcam.store.base import Source
from dashcam.store.sqlite.facts import count_events
from dashcam.store.sqlite.spans import SpanWriter
from dashcam.store.sqlite.statements import chunks, insert_rows, marks

DAY = 86_400_000_000
_SCATTERED = 100_000  # bytes from one line to the next; records of our own are shorter

_whose = attrgetter("session_id", "trace_id", "kind", "operation", "segment", "marks")
Alike = tuple[str, str, str, str, str, int]  # those six
_segment, _offset = attrgetter("segment"), attrgetter("offset")
_Placed = TypeVar("_Placed", Event, Orphan)
_Traced = TypeVar("_Traced", Span, LogRecord)

# After the first two, in the order of Event's own fields.
_EVENT_COLUMNS = 'seq, source_id, "offset", session_id, trace_id, step, kind, operation, ts, fields, marks'


class LogWriter:
    """Appends to the log inside the caller's transaction. `seq` is one count over all of it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        row = connection.execute("SELECT value FROM meta WHERE name = 'seq'").fetchone()
        self.seq = int(row[0]) if row else 0
        self._source_ids: dict[str, int] = {}
        self._spans = SpanWriter(connection)

    def save_seq(self) -> None:
        """With the rows, so that a number is never given twice, even when the newest rows are gone."""
        self._connection.execute("REPLACE INTO meta (name, value) VALUES ('seq', ?)", (str(self.seq),))

    def forget(self) -> None:
        """After a rollback: what was remembered may not be there."""
        self.__init__(self._connection)  # type: ignore[misc]

    def source_id(self, segment: str) -> int:
        known = self._source_ids.get(segment)
        if known is None:
            self._connection.execute(
                "INSERT INTO sources (segment, updated_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
                (segment, _now()),
            )
            row = self._connection.execute("SELECT id FROM sources WHERE segment = ?", (segment,)).fetchone()
            known = self._source_ids[segment] = int(row[0])
        return known

    def put_sources(self, sources: Iterable[Source]) -> None:
        for source in sources:
            self._connection.execute(
                'UPDATE sources SET "offset" = ?, path = ?, inode = ?, check_json = ?, updated_at = ? WHERE id = ?',
                (
                    source.offset,
                    source.path,
                    source.inode,
                    source.check,
                    _now(),
                    self.source_id(source.segment),
                ),
            )

    def put_events(self, events: Sequence[Event]) -> int:
        """Add the events that are not there yet; return how many."""
        fresh = self._only_new("events", events)
        sources = [self._source_ids[event.segment] for event in fresh]
        numbered = zip(itertools.count(self.seq + 1), sources, fresh)
        rows = [(seq, source, *astuple(event)[1:-1]) for seq, source, event in numbered]
        insert_rows(self._connection, f"INSERT INTO events ({_EVENT_COLUMNS})", rows)
        self.seq += len(rows)
        # Neighbours are alike: counted once by all that is asked for, a few thousand events are a few dozen kinds.
        counts = Counter(zip(map(_whose, fresh), [event.ts // DAY for event in fresh], strict=True))
        self._put_aliases({trace for (_, trace, *_), _ in counts})
        self._count_events(counts)
        count_events(self._connection, fresh)
        return len(rows)

    def _count_events(self, counts: Mapping[tuple[Alike, int], int]) -> None:
        sums: dict[tuple[int, int, str, str], list[int]] = {}
        for ((_, _, kind, operation, segment, marked), day), count in counts.items():
            told = sums.setdefault((day, self._source_ids[segment], kind, operation), [0, 0, 0])
            told[0] += count
            told[1] += count * bool(marked & MALFORMED)
            told[2] += count * bool(marked & REDACTED)
        self._count([(*key, *told, 0) for key, told in sums.items()])

    def put_orphans(self, orphans: Sequence[Orphan]) -> int:
        fresh = self._only_new("orphans", orphans)
        rows = []
        for orphan in fresh:
            self.seq += 1
            source = self._source_ids[orphan.segment]
            rows.append((self.seq, source, orphan.offset, orphan.reason, orphan.operation, orphan.ts, orphan.body))
            self._count([(orphan.ts // DAY, source, "", orphan.operation, 0, 0, 0, 1)])
        insert_rows(
            self._connection,
            'INSERT INTO orphans (seq, source_id, "offset", reason, operation, ts, body)',
            rows,
        )
        return len(rows)

    def put_spans(self, spans: Sequence[Span]) -> int:
        """Add spans; where two bodies meet, the greater (end, digest) stands. Returns how many changed."""
        return self._put_traced(spans, self._spans.put_spans)

    def put_logs(self, logs: Sequence[LogRecord]) -> int:
        """Add the log records that are not there yet; return how many."""
        return self._put_traced(logs, self._spans.put_logs)

    def _put_traced(self, records: Sequence[_Traced], put: Callable[[Sequence[_Traced], int], int]) -> int:
        if not records:
            return 0
        changed = put(records, self.seq)
        self.seq += changed
        self._put_aliases({record.trace_id for record in records})
        return changed

    def _known_offsets(self, table: str, segment: str, offsets: set[int]) -> Iterator[int]:
        """Which of these the table holds: of neighbours in one sweep, of what is scattered one by one."""
        source = self.source_id(segment)
        least, most = min(offsets), max(offsets)
        query = f'SELECT "offset" FROM {table} WHERE source_id = ? AND "offset" '
        if most - least <= _SCATTERED * len(offsets):
            yield from (
                offset for (offset,) in self._connection.execute(f"{query} BETWEEN ? AND ?", (source, least, most))
            )
            return
        for chunk in chunks(sorted(offsets)):
            rows = self._connection.execute(f"{query} IN ({marks(chunk)})", (source, *chunk))
            yield from (offset for (offset,) in rows)

    def _only_new(self, table: str, records: Sequence[_Placed]) -> Sequence[_Placed]:
        """Those whose (segment, offset) the table doesn't hold. One writer, so nobody comes in between."""
        places: dict[str, set[int]] = {}
        for segment, neighbours in itertools.groupby(records, _segment):
            places.setdefault(segment, set()).update(map(_offset, neighbours))
        known: set[tuple[str, int]] = set()
        for segment, offsets in places.items():
            known.update((segment, offset) for offset in self._known_offsets(table, segment, offsets))
        if not known and sum(map(len, places.values())) == len(records):
            return records  # the usual case: nothing is there yet, nothing is told twice
        fresh = []
        for record in records:
            place = (record.segment, record.offset)
            if place not in known:
                known.add(place)
                fresh.append(record)
        return fresh

    def _put_aliases(self, traces: set[str]) -> None:
        """An opaque trace leaves as OTLP under a derived id; keep both, so that either finds it."""
        opaque = [(otel_trace_id(trace), trace) for trace in traces if not is_otel_trace_id(trace)]
        insert_rows(self._connection, "INSERT OR IGNORE INTO trace_aliases (otel_trace_id, trace_id)", opaque)

    def _count(self, counts: Iterable[tuple[Any, ...]]) -> None:
        """Add to the daily rollups, in the same transaction and only for rows that were new."""
        self._connection.executemany(
            "INSERT INTO rollups (day, source_id, kind, operation, events, malformed, redacted, orphans) "
            "VALUES (date(? * 86400, 'unixepoch'), ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "events = events + excluded.events, malformed = malformed + excluded.malformed, "
            "redacted = redacted + excluded.redacted, orphans = orphans + excluded.orphans",
            counts,
        )


def _now() -> int:
    return time.time_ns() // 1000

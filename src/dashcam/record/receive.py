"""What is sent to a server, ready for the store: each request by itself, so that none harms its neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec

from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.span import LogRecord, Span
from dashcam.dialects.rows import ROWS, Row, row_of
from dashcam.errors import RecordRefused, UnreadableInput
from dashcam.record.collect import batch_of, parse_block
from dashcam.sdk.redaction.redactor import Redactor
from dashcam.store.base import Batch, Context, Source, Store

Form = Literal["protobuf", "json"]
Signal = Literal["traces", "logs", "metrics"]

MOST_SCORES = 10_000  # of one request
MOST_FAULTS = 10  # told one by one
OTLP = "otlp"  # the segment of what came over OTLP and belongs to nothing


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What one request brings. `rejected` of its records are not kept, for `reason`."""

    batch: Batch = Batch()
    records: int = 0  # that it holds, kept or not
    rejected: int = 0
    reason: str = ""
    redacted: int = 0
    ids: Sequence[str] = ()  # of scores, in their order
    is_list: bool = False  # whether the scores came as one


class Lines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a shipped journal: events, what belongs in quarantine, and rows in the order of their lines."""

    segment: str
    start: int
    end: int
    events: list[Event]
    orphans: list[Orphan]
    rows: list[tuple[Event, Row]]

    def batch(self, reached: int | None) -> Batch:
        """All of it, and up to where the segment is known then."""
        sources = () if reached is None else (Source(segment=self.segment, offset=reached),)
        return batch_of(self.rows, events=self.events, orphans=self.orphans, sources=sources)


def receive_otlp(signal: Signal, body: bytes, form: Form, redactor: Redactor) -> Receipt:
    """The spans or log records of an export request; metrics are checked, counted and not kept."""
    from dashcam.dialects.otlp import wire

    if signal == "metrics":
        return Receipt(records=wire.count_metrics(wire.parse_metrics(body, form)))
    if signal == "traces":
        received = wire.receive_traces(wire.parse_traces(body, form), redactor)
    else:
        received = wire.receive_logs(wire.parse_logs(body, form), redactor)
    batch = Batch(
        spans=received.spans,
        logs=received.logs,
        orphans=[_orphan(reason, name, body) for reason, name, body in received.orphans],
        contents=received.contents,
        contexts=[Context(digests) for digests in received.contexts],
    )
    kept = len(batch.spans) + len(batch.logs) + len(batch.orphans)
    return Receipt(
        batch=batch,
        records=kept + received.rejected,
        rejected=received.rejected,
        reason=received.reason,
        redacted=sum(span.redacted for span in batch.spans) + sum(log.redacted for log in batch.logs),
    )


def receive_scores(body: bytes, redactor: Redactor) -> Receipt:
    """The scores of a body, one or a list; of a list each is judged by itself."""
    try:
        posted = msgspec.json.decode(body)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(
            f"The body is no JSON: {error}. Send one score as an object, or a list of them."
        ) from None
    is_list = isinstance(posted, list)
    if is_list and len(posted) > MOST_SCORES:
        raise UnreadableInput(f"The body holds {len(posted):,} scores. Send at most {MOST_SCORES:,} at once.")
    logs: list[LogRecord] = []
    ids, faults = [], []
    for score in posted if is_list else [posted]:
        try:
            score_id, log = _score(score, redactor)
            logs.append(log)
            ids.append(score_id)
        except UnreadableInput as error:
            if not is_list:
                raise
            faults.append(str(error))
    count, reason = len(logs) + len(faults), " ".join(faults[:MOST_FAULTS])
    return Receipt(batch=Batch(logs=logs), records=count, rejected=len(faults), reason=reason, ids=ids, is_list=is_list)


def _score(score: Any, redactor: Redactor) -> tuple[str, LogRecord]:
    """A score's id and its record. One without an id is known by what it says, so that a repeat is the same one."""
    from dashcam.dialects.otlp.scores import score_records

    if not isinstance(score, dict):
        raise UnreadableInput(f"A score is a JSON object, not {type(score).__name__}.")
    if not isinstance(score.get("id"), str) or not score["id"]:
        score["id"] = sha256(msgspec.json.encode(score, order="deterministic")).hexdigest()[:32]
    (log,) = score_records(msgspec.json.encode(redactor.apply(score).fields))
    return score["id"], log


def receive_lines(body: bytes, segment: str, start: int) -> Lines:
    """The lines of a slice of a journal, as docs/wire.md has it."""
    if not body.endswith(b"\n"):
        raise UnreadableInput("The body doesn't end with a line end. Send whole lines, and at least one.")
    lines = Lines(segment=segment, start=start, end=start + len(body), events=[], orphans=[], rows=[])
    for record in parse_block(body, segment, start, time.time_ns() // 1000):
        if isinstance(record, Orphan):
            lines.orphans.append(record)
        elif record.operation in ROWS and (row := _row_of(record)) is not None:
            lines.rows.append((record, row))
        else:
            lines.events.append(record)
    return lines


def merged(batches: Iterable[Batch]) -> Batch:
    """One batch of many, in their order."""
    joined: dict[str, list[Any]] = {name: [] for name in Batch.__struct_fields__}
    for batch in batches:
        for name, records in joined.items():
            records += getattr(batch, name)
    return Batch(**joined)


def append_singly(store: Store, batch: Batch, refused: Callable[[Orphan, Event | Span | LogRecord], None]) -> int:
    """Append a batch of which the store refused something: that goes to quarantine, alone. Returns what was new.

    `refused` is told of each. What the records refer to goes first; where that is refused so are they.
    """
    new = 0
    orphans = list(batch.orphans)
    lost: RecordRefused | None = None
    try:
        store.append(Batch(contents=batch.contents, contexts=batch.contexts))
    except RecordRefused as error:
        lost = error
    records: list[tuple[Event | Span | LogRecord, Batch]] = [(span, Batch(spans=[span])) for span in batch.spans]
    records += [(log, Batch(logs=[log])) for log in batch.logs]
    records += [(event, Batch(events=[event])) for event in batch.events]
    for record, alone in records:
        try:
            if lost:
                raise lost
            new += store.append(alone).new
        except RecordRefused as error:
            orphans.append(_refused(record, error))
            refused(orphans[-1], record)
    return new + store.append(Batch(orphans=orphans)).new


def append_lines_singly(store: Store, lines: Lines, refused: Callable[[Orphan, Event], None]) -> int:
    """As `append_singly`, for the lines of a journal; rows in their order."""
    new = 0
    alone = [(event, Batch(events=[event])) for event in lines.events]
    alone += [(event, batch_of([(event, row)])) for event, row in lines.rows]
    orphans = list(lines.orphans)
    for event, batch in alone:
        try:
            new += store.append(batch).new
        except RecordRefused as error:
            orphans.append(_refused(event, error))
            refused(orphans[-1], event)
    return new + store.append(Batch(orphans=orphans)).new


def _row_of(line: Event) -> Row | None:
    """The row that a line holds. Another program may use the name for events of its own: those stay events."""
    try:
        return row_of(line)
    except (ValueError, RecursionError):
        return None


def _orphan(reason: str, operation: str, body: bytes) -> Orphan:
    """What came over OTLP and belongs to nothing.

    Known by what it says, so that a request that is sent again, cut as it may be, adds nothing.
    """
    place = int.from_bytes(sha256(body).digest()[:8]) >> 2  # as many bits as any store's integer holds
    return Orphan(segment=OTLP, offset=place, reason=reason, body=body, operation=operation, ts=time.time_ns() // 1000)


def _refused(record: Event | Span | LogRecord, error: RecordRefused) -> Orphan:
    """What the store can't hold, as it was sent, with the reason."""
    reason = f"refused by the store: {error.__cause__}"
    if not isinstance(record, Event):
        return _orphan(reason, f"{record.trace_id} {record.name!a}", record.body or record.scope)
    body = msgspec.json.encode(record.as_record())
    return msgspec.structs.replace(
        _orphan(reason, record.operation, body), segment=record.segment, offset=record.offset
    )

"""A line of JSON into an event, or into quarantine with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from dashcam.contracts.event import MARK_NAMES, Event, Orphan
from dashcam.contracts.identity import (
    MARKS,
    MAX_ID,
    MAX_STEP,
    MAX_TIME,
    fault_of_id,
    fault_of_kind,
    fault_of_record,
    kind_of,
)

# Under which names other programs say what happened, and when.
_OPERATION = ("operation", "event", "event_name", "type", "schema")
_TIME = ("ts", "timestamp", "time", "created_at")
_MAX_REASON = 300


_Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]


class _Head(msgspec.Struct):
    """How the SDK begins a line, in this order. Decoding to a type is the quick check of nearly all lines."""

    session_id: _Id
    trace_id: _Id
    step: Annotated[int, Meta(ge=0, le=MAX_STEP)]
    kind: _Id
    operation: _Id
    ts: Annotated[datetime, Meta(tz=True)]


_head_of = msgspec.json.Decoder(_Head).decode
_raw_of = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_json_of = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse_line(line: bytes, segment: str, offset: int, now: int) -> Event | Orphan:
    """One line as an event; what can't be joined as an orphan that keeps the whole line. Never raises.

    `now` (microseconds) is when a record happened that doesn't say.
    """
    try:
        head = _head_of(line)  # reads to the end of the line: what isn't JSON fails here
        opening = len(encoded := _encode(head)) - 1
        if (
            line.startswith(encoded[:opening])  # then what follows are the fields, to be kept to the letter
            and line.endswith(b"}")
            and not line.endswith(b"}}")  # as our remarks end, if there are any
            and 0 <= (ts := round(head.ts.timestamp() * 1e6)) < MAX_TIME
            and _is_plain(head.session_id, head.trace_id, head.kind, head.operation)
        ):
            return Event(
                segment,
                offset,
                head.session_id,
                head.trace_id,
                head.step,
                head.kind,
                head.operation,
                ts,
                "{" + line[opening:].lstrip(b",").decode(),
            )
    except (ValueError, OverflowError, RecursionError):
        pass  # not as the SDK writes: find out what it is, and say so
    return _parse_foreign(line.removeprefix(b"\xef\xbb\xbf"), segment, offset, now)


@lru_cache(maxsize=4096)
def _is_plain(session_id: str, trace_id: str, kind: str, operation: str) -> bool:
    """Identity without a doubt: what isn't goes through the full rules. Neighbours share it, so it is remembered."""
    plain = all(text.isprintable() and not text.isspace() for text in (session_id, trace_id, operation))
    return plain and (kind == "user" or fault_of_kind(kind) is None)


def _parse_foreign(line: bytes, segment: str, offset: int, now: int) -> Event | Orphan:
    """A line from elsewhere, by the full rules."""

    def orphan(reason: str, operation: str = "") -> Orphan:
        reason = reason[:_MAX_REASON]
        return Orphan(segment=segment, offset=offset, reason=reason, body=line, operation=operation, ts=now)

    try:
        line.decode()
        record = _json_of(line)
        raw = _raw_of(line) if isinstance(record, dict) else {}
    except (ValueError, RecursionError) as error:
        return orphan(f"not JSON: {error}")
    if not isinstance(record, dict):
        return orphan(f"not a JSON object but {type(record).__name__}")
    operation = operation_of(record)
    if fault := fault_of_record(record):
        return orphan(fault, operation)
    ts = time_of(record)
    for name in ("session_id", "trace_id", "step", "operation"):
        raw.pop(name, None)
    if kind_of(record) == record.get("kind"):
        raw.pop("kind", None)
    if ts is not None and "ts" in record:
        raw.pop("ts", None)
    return Event(
        segment,
        offset,
        record["session_id"],
        record["trace_id"],
        record["step"],
        kind_of(record),
        operation or "record",
        now if ts is None else ts,
        fields=_encode(raw).decode(),
        marks=_marks(raw[MARKS]) if MARKS in raw else 0,
    )


def operation_of(record: Mapping[str, Any]) -> str:
    """What a record says that happened, under whichever name; empty when it doesn't."""
    for name in _OPERATION:
        value = record.get(name)
        if isinstance(value, str) and fault_of_id(value, name) is None:
            return value
    return ""


def time_of(record: Mapping[str, Any]) -> int | None:
    """When a record says that it happened, in microseconds; None when it doesn't, or not legibly."""
    said = next((record[name] for name in _TIME if record.get(name) is not None), None)
    try:
        if isinstance(said, str):
            moment = datetime.fromisoformat(said)
            ts = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
        elif isinstance(said, int | float) and not isinstance(said, bool) and 0 < said < 1e19:
            # Seconds, milliseconds, microseconds or nanoseconds: their sizes today leave no doubt.
            scales = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (1e20, 1e-3))
            ts = round(said * next(factor for limit, factor in scales if said < limit))
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return ts if 0 <= ts < MAX_TIME else None


def _marks(raw: msgspec.Raw) -> int:
    """Our own remarks on a record as bits. Somebody else's key of that name says nothing."""
    try:
        said = _json_of(raw)
    except ValueError:
        return 0
    return sum(bit for name, bit in MARK_NAMES.items() if name in said) if isinstance(said, dict) else 0

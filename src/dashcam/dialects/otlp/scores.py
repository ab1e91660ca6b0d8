"""Scores: what a Langfuse SDK posts becomes OpenTelemetry's own log record for them, and that is read back."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import msgspec
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage

from dashcam.contracts.score import Score
from dashcam.contracts.span import LogRecord
from dashcam.dialects.otlp.reading import LogView
from dashcam.dialects.otlp.values import number, session_of, text
from dashcam.errors import UnreadableInput

EVENT = "gen_ai.evaluation.result"

_NAME, _VALUE, _LABEL, _COMMENT = (
    f"gen_ai.evaluation.{it}" for it in ("name", "score.value", "score.label", "explanation")
)
_ID, _SOURCE = "dashcam.score.id", "dashcam.score.source"
_SESSION = "session.id"
_SESSION_TRACE = "session:"
_LANGFUSE = "langfuse"
_REST = "langfuse.score."
_TOLD_ELSEWHERE = frozenset(("id", "name", "value", "comment", "timestamp", "sessionId"))

_TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID = re.compile(r"(?!0{16})[0-9a-f]{16}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NS = 2**64  # what a protobuf time holds
_DIGITS = 32


class _Posted(msgspec.Struct, rename="camel"):
    """What we need of a score's body; the rest is kept as it is."""

    name: str
    value: float | str | bool
    id: str | None = None
    trace_id: str | None = None
    observation_id: str | None = None
    session_id: str | None = None
    comment: str | None = None
    timestamp: str | None = None


def score_records(body: bytes, received_ns: int | None = None) -> list[LogRecord]:
    """The scores in the body of a `POST /api/public/scores`, one or a list; raises UnreadableInput for anything else.

    A score without a time was given when it was received.
    """
    try:
        posted = msgspec.json.decode(body, type=list[msgspec.Raw] if body.lstrip()[:1] == b"[" else msgspec.Raw)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(f"The body is no score: {error}. Send one JSON object, or a list of them.") from None
    received_ns = time.time_ns() if received_ns is None else received_ns
    items = posted if isinstance(posted, list) else [posted]
    return [_record(bytes(item), f"Score {number}", received_ns) for number, item in enumerate(items, 1)]


def score_of(log: LogView) -> Score | None:
    """The score that a log record tells, ours or any OpenTelemetry sender's; None where it tells none.

    Its session is the one that the record names. Where it names none that is `trace:<id>`, and who knows the session
    of the trace puts that in its place.
    """
    told = log.attributes
    value, label = number(told, _VALUE), text(told, _LABEL)
    session = session_of(told) or _session_in(log.trace_id)
    if log.name != EVENT or session is None or (value is None and label is None):
        return None
    name, comment = text(told, _NAME) or "", text(told, _COMMENT)
    said = (log.trace_id, log.span_id, log.at_ns, name, value, label, comment)
    return Score(
        # In ASCII, since text that no encoding takes may be in there.
        score_id=text(told, _ID) or sha256(ascii(said).encode()).hexdigest()[:_DIGITS],
        session_id=session,
        trace_id=log.trace_id or f"{_SESSION_TRACE}{session}",
        span_id=log.span_id,
        name=name,
        value=value,
        label=label,
        comment=comment,
        source=text(told, _SOURCE) or "",
        ts=log.at_ns // 1000,
    )


def _record(item: bytes, where: str, received_ns: int) -> LogRecord:
    try:
        posted = msgspec.json.decode(item, type=_Posted)
    except (ValueError, RecursionError) as error:
        raise UnreadableInput(
            f"{where} can't be read: {error}. It needs at least name, value, and traceId or sessionId."
        ) from None
    trace_id, span_id = _place(posted, where)
    at_ns = received_ns if posted.timestamp is None else _time(posted.timestamp, where)
    message = LogMessage(
        time_unix_nano=at_ns,
        event_name=EVENT,
        attributes=[KeyValue(key=key, value=value) for key, value in _attributes(posted, item)],
    )
    if not trace_id.startswith(_SESSION_TRACE):
        message.trace_id = bytes.fromhex(trace_id)
        message.span_id = bytes.fromhex(span_id or "")
    body = message.SerializeToString(deterministic=True)
    return LogRecord(trace_id=trace_id, span_id=span_id, ts=at_ns // 1000, name=EVENT, body=body)


def _attributes(posted: _Posted, item: bytes) -> Iterator[tuple[str, AnyValue]]:
    yield _NAME, AnyValue(string_value=posted.name)
    if isinstance(posted.value, str):
        yield _LABEL, AnyValue(string_value=posted.value)
    else:
        yield _VALUE, AnyValue(double_value=posted.value)
    if posted.comment is not None:
        yield _COMMENT, AnyValue(string_value=posted.comment)
    yield _ID, AnyValue(string_value=posted.id or sha256(item).hexdigest()[:_DIGITS])
    yield _SOURCE, AnyValue(string_value=_LANGFUSE)
    if posted.session_id:
        yield _SESSION, AnyValue(string_value=posted.session_id)
    for key, raw in msgspec.json.decode(item, type=dict[str, msgspec.Raw]).items():
        if key not in _TOLD_ELSEWHERE and bytes(raw) != b"null":
            yield f"{_REST}{key}", _any(bytes(raw))


def _place(posted: _Posted, where: str) -> tuple[str, str | None]:
    """The trace and the span that a score is about. Older trace ids are any text: such a trace was never sent here."""
    trace_id, span_id = (posted.trace_id or "").lower(), (posted.observation_id or "").lower()
    if _TRACE_ID.fullmatch(trace_id):
        return trace_id, span_id if _SPAN_ID.fullmatch(span_id) else None
    session = posted.session_id or posted.trace_id
    if not session:
        raise UnreadableInput(
            f"{where} ({posted.name!r}) says neither traceId nor sessionId, and would belong to nothing. Name one of them."
        )
    return f"{_SESSION_TRACE}{session}", None


def _time(told: str, where: str) -> int:
    try:
        moment = datetime.fromisoformat(told)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        at_ns = (moment - _EPOCH) // timedelta(microseconds=1) * 1000
    except (ValueError, OverflowError):
        at_ns = -1
    if not 0 <= at_ns < _MOST_NS:
        raise UnreadableInput(f"{where}: the timestamp {told[:64]!r} is no time since 1970. Send ISO 8601.")
    return at_ns


def _any(raw: bytes) -> AnyValue:
    """Text and switches as they are, everything else as the JSON that it was."""
    value = msgspec.json.decode(raw) if raw[:1] in (b'"', b"t", b"f") else raw.decode()
    return AnyValue(bool_value=value) if isinstance(value, bool) else AnyValue(string_value=value)


def _session_in(trace_id: str) -> str | None:
    if not trace_id:
        return None
    return trace_id.removeprefix(_SESSION_TRACE) if trace_id.startswith(_SESSION_TRACE) else f"trace:{trace_id}"

"""OTLP requests into spans and log records.

A small span is not walked: what has a column is read and cleared, the rest of its message is kept as it came. What
can't be joined (no trace, no session, a time beyond 64 bits) is kept whole as an orphan, so nothing is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import msgspec
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from dashcam.contracts.span import LogRecord, Ref, Span, Status
from dashcam.dialects.otlp.calm import calm_of
from dashcam.dialects.otlp.counting import check_count
from dashcam.dialects.otlp.json_form import read_json
from dashcam.dialects.otlp.offload import LIMIT, take_out
from dashcam.dialects.otlp.redact import redact
from dashcam.errors import UnreadableInput
from dashcam.sdk.redaction import Redactor

Form = Literal["protobuf", "json"]
Request = TypeVar("Request", ExportTraceServiceRequest, ExportLogsServiceRequest, ExportMetricsServiceRequest)

REPEATED = 64 << 20  # bytes of resources and scopes that one request may come to

_TRACE_ID, _SPAN_ID = 16, 8  # bytes
_NO_TRACE, _NO_SPAN = bytes(_TRACE_ID), bytes(_SPAN_ID)
_MAX_INT = 2**63 - 1
_STATUS: dict[int, Status] = {1: "ok", 2: "error"}
_CODE_ALONE = 2  # bytes of a status that says only its code
_SESSION_KEYS = ("session.id", "gen_ai.conversation.id", "conversation.id", "langfuse.session.id", "session_id")
_LONGEST_SESSION = 1024
_SEVERITIES = {number: name.removeprefix("SEVERITY_NUMBER_") for name, number in SeverityNumber.items() if number}


class Received(msgspec.Struct, kw_only=True):
    """What a request holds. An orphan is a reason, an operation, and its message with all that stood around it."""

    spans: list[Span] = []
    logs: list[LogRecord] = []
    orphans: list[tuple[str, str, bytes]] = []
    contents: list[bytes] = []
    contexts: list[tuple[bytes, ...]] = []
    rejected: int = 0
    reason: str = ""


def parse_traces(body: bytes, form: Form) -> ExportTraceServiceRequest:
    return _parse(ExportTraceServiceRequest, body, form)


def parse_logs(body: bytes, form: Form) -> ExportLogsServiceRequest:
    return _parse(ExportLogsServiceRequest, body, form)


def parse_metrics(body: bytes, form: Form) -> ExportMetricsServiceRequest:
    """Metrics are checked and counted, not kept."""
    return _parse(ExportMetricsServiceRequest, body, form)


def count_metrics(request: ExportMetricsServiceRequest) -> int:
    return sum(len(scope.metrics) for block in request.resource_metrics for scope in block.scope_metrics)


def receive_traces(request: ExportTraceServiceRequest, redactor: Redactor | None) -> Received:
    """The spans of a request, which is used up by this."""
    kept = _Kept(_needed(redactor, request))
    for block in request.resource_spans:
        scopes = list(block.scope_spans)
        del block.scope_spans[:]
        redacted = block.HasField("resource") and kept.clean(block.resource)
        for scope in scopes:
            spans = list(scope.spans)
            del scope.spans[:]
            around = kept.around(block, block.scope_spans, scope, redacted=redacted)
            for span in spans:
                kept.span(span, around)
    return kept.received()


def receive_logs(request: ExportLogsServiceRequest, redactor: Redactor | None) -> Received:
    """The log records of a request, which is used up by this."""
    kept = _Kept(_needed(redactor, request))
    for block in request.resource_logs:
        scopes = list(block.scope_logs)
        del block.scope_logs[:]
        redacted = block.HasField("resource") and kept.clean(block.resource)
        for scope in scopes:
            records = list(scope.log_records)
            del scope.log_records[:]
            around = kept.around(block, block.scope_logs, scope, redacted=redacted)
            for record in records:
                kept.log(record, block.resource, around)
    return kept.received()


def _needed(redactor: Redactor | None, message: Any) -> Redactor | None:
    """The redactor, unless a quick look at the message says that it would find nothing."""
    if redactor is None or calm_of(redactor).is_calm(message.SerializeToString()):
        return None
    return redactor


class _Around(msgspec.Struct, frozen=True):
    """What stands around a span or a log record, and whether a secret was taken out of that."""

    raw: bytes
    kind: Any  # the message that `raw` is
    redacted: bool


class _Kept:
    """What has been received of one request so far."""

    def __init__(self, redactor: Redactor | None) -> None:
        self._redactor = redactor
        self._got = Received()
        self._repeated = 0
        self._contents: dict[bytes, None] = {}
        self._contexts: dict[tuple[bytes, ...], None] = {}

    def received(self) -> Received:
        self._got.contents, self._got.contexts = list(self._contents), list(self._contexts)
        return self._got

    def around(self, block: ResourceSpans | ResourceLogs, scopes: Any, scope: Any, *, redacted: bool) -> _Around:
        """The block with this scope alone."""
        if scope.HasField("scope"):
            redacted |= self.clean(scope.scope)
        scopes.append(scope)
        raw = block.SerializeToString()
        del scopes[:]
        self._repeat(raw)
        return _Around(raw, type(block), redacted)

    def _repeat(self, raw: bytes) -> None:
        """What stands around records is kept with each scope and each orphan: a small request must not grow by that."""
        self._repeated += len(raw)
        if self._repeated > REPEATED:
            raise UnreadableInput(
                f"The resources of this request, one for each scope, come to more than {REPEATED:,} bytes. Send scopes "
                "with large resources in requests of their own."
            )

    def clean(self, message: SpanMessage | LogMessage | Resource | InstrumentationScope) -> bool:
        """Take secrets out of a message; say whether there was one."""
        redactor = _needed(self._redactor, message)
        return redactor is not None and redact(message, redactor)

    def span(self, message: SpanMessage, around: _Around) -> None:
        redacted = around.redacted | self.clean(message)
        trace_id, span_id, parent_id = message.trace_id, message.span_id, message.parent_span_id
        start, end, name = message.start_time_unix_nano, message.end_time_unix_nano, message.name
        if wrong := _unjoinable(trace_id, span_id, start, end):
            self._orphan(wrong, name, message, around)
            return
        message.trace_id = message.span_id = b""
        message.name = ""
        message.start_time_unix_nano = message.end_time_unix_nano = 0
        parent = None
        if len(parent_id) == _SPAN_ID and parent_id != _NO_SPAN:
            parent, message.parent_span_id = parent_id.hex(), b""
        status = _take_status(message)
        body, refs = self._body(message)
        self._got.spans.append(
            Span(
                trace_id=trace_id.hex(),
                span_id=span_id.hex(),
                parent_span_id=parent,
                name=name,
                start_ns=start,
                end_ns=end,
                status=status,
                body=body,
                scope=around.raw,
                refs=refs,
                redacted=redacted,
            )
        )

    def log(self, message: LogMessage, resource: Resource, around: _Around) -> None:
        redacted = around.redacted | self.clean(message)
        told = _texts(message.attributes)
        name = told.get("event.name") or message.event_name
        trace_id = _trace_of(message, name, told, resource)
        if trace_id is None:
            self._orphan("a log record without a trace id and without a session", name, message, around)
            return
        span_id = message.span_id
        has_span = len(span_id) == _SPAN_ID and span_id != _NO_SPAN
        ts = (message.time_unix_nano or message.observed_time_unix_nano) // 1000
        severity = message.severity_text or _SEVERITIES.get(message.severity_number, "")
        body, refs = self._body(message)
        self._got.logs.append(
            LogRecord(
                trace_id=trace_id,
                span_id=span_id.hex() if has_span else None,
                ts=ts,
                name=name,
                severity=severity,
                body=body,
                scope=around.raw,
                refs=refs,
                redacted=redacted,
            )
        )

    def _body(self, message: SpanMessage | LogMessage) -> tuple[bytes, tuple[Ref, ...]]:
        """The message in bytes, and what was too large for it."""
        body: bytes = message.SerializeToString()
        if len(body) <= LIMIT:
            return body, ()
        refs, contents, contexts = take_out(message)
        if not refs:
            return body, ()
        self._contents.update(dict.fromkeys(contents))
        self._contexts.update(dict.fromkeys(contexts))
        return message.SerializeToString(), refs

    def _orphan(self, reason: str, operation: str, message: SpanMessage | LogMessage, around: _Around) -> None:
        """Keep it whole: the block around it, with this one alone."""
        self._repeat(around.raw)
        block = around.kind.FromString(around.raw)
        if isinstance(message, SpanMessage):
            block.scope_spans[0].spans.append(message)
        else:
            block.scope_logs[0].log_records.append(message)
        self._got.orphans.append((reason, operation, block.SerializeToString()))


def _parse(kind: type[Request], body: bytes, form: Form) -> Request:
    if form == "json":
        return read_json(body, kind)
    check_count(body)
    try:
        request: Request = kind.FromString(body)
    except DecodeError as error:
        raise UnreadableInput(
            f"The body of {len(body):,} bytes is no protobuf {kind.DESCRIPTOR.name}: {error}. "
            "Send OTLP with content-type application/x-protobuf, or JSON with application/json."
        ) from error
    return request


def _unjoinable(trace_id: bytes, span_id: bytes, start: int, end: int) -> str | None:
    """What keeps a span from being joined, if anything does."""
    if len(trace_id) != _TRACE_ID or trace_id == _NO_TRACE:
        return f"a span whose trace id is {trace_id[:32].hex() or 'empty'}, not 16 bytes with one set"
    if len(span_id) != _SPAN_ID or span_id == _NO_SPAN:
        return f"a span whose id is {span_id[:32].hex() or 'empty'}, not 8 bytes with one set"
    if start > _MAX_INT or end > _MAX_INT:
        return f"a span from {start} to {end} ns, which is beyond 64 bits with a sign"
    return None


def _take_status(message: SpanMessage) -> Status:
    """The status; it stays in the message where it says more than the word does."""
    if not message.HasField("status"):
        return "unset"
    told = message.status
    status = _STATUS.get(told.code, "unset")
    if status != "unset" and told.ByteSize() == _CODE_ALONE:
        message.ClearField("status")
    return status


def _trace_of(message: LogMessage, name: str, told: dict[str, str], resource: Resource) -> str | None:
    """The trace of a log record, or one that stands for its session.

    Codex tells a conversation in log records alone, only some of which have a trace: its session keeps them together.
    """
    trace_id: bytes = message.trace_id
    traced = trace_id.hex() if len(trace_id) == _TRACE_ID and trace_id != _NO_TRACE else None
    if traced and not name.startswith("codex."):
        return traced
    session = _session_in(told) or _session_in(_texts(resource.attributes))
    return f"session:{session}" if session else traced


def _session_in(texts: dict[str, str]) -> str | None:
    return next((texts[key] for key in _SESSION_KEYS if 0 < len(texts.get(key, "")) <= _LONGEST_SESSION), None)


def _texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Attributes that are texts; the others are empty here."""
    return {attribute.key: attribute.value.string_value for attribute in attributes}

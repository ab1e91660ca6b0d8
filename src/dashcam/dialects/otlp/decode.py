"""Spans and log records out of the store: the message as it was sent, and the view that dialects read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeVar

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from dashcam.contracts.span import LogRecord, Span
from dashcam.dialects.otlp.offload import put_back
from dashcam.dialects.otlp.reading import EventView, LogView, SpanView
from dashcam.errors import UnreadableInput

CODES = {"ok": 1, "error": 2}

Message = TypeVar("Message", SpanMessage, LogMessage, ResourceSpans)


class Fetch(Protocol):
    """Where contents come from, as a store's reader has them."""

    def bodies(self, digests: Iterable[bytes], /) -> Mapping[bytes, bytes]: ...
    def context(self, digest: bytes, /) -> Sequence[bytes]: ...


class Scope(NamedTuple):
    """Who told: the resource, and the instrumentation scope. Shared between spans: never change the dicts."""

    resource: dict[str, Any]
    name: str
    version: str
    attributes: dict[str, Any]


def span_message(span: Span, fetch: Fetch) -> SpanMessage:
    """The span as it was sent."""
    message = _span_rest(span, fetch)
    message.trace_id, message.span_id = bytes.fromhex(span.trace_id), bytes.fromhex(span.span_id)
    if span.parent_span_id:
        message.parent_span_id = bytes.fromhex(span.parent_span_id)
    message.name = span.name
    message.start_time_unix_nano, message.end_time_unix_nano = span.start_ns, span.end_ns
    if span.status in CODES and not message.HasField("status"):
        message.status.code = CODES[span.status]  # type: ignore[assignment]
    return message


def span_view(span: Span, fetch: Fetch) -> SpanView:
    """The span as dialects read it."""
    message, scope = _span_rest(span, fetch), scope_of(span.scope)
    return SpanView(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        status=span.status,
        status_message=message.status.message,
        attributes=attributes_of(message.attributes),
        events=[
            EventView(event.name, event.time_unix_nano, attributes_of(event.attributes)) for event in message.events
        ],
        scope=scope.name,
        resource=scope.resource,
        redacted=span.redacted,
    )


def log_message(log: LogRecord, fetch: Fetch) -> LogMessage:
    """The log record as it was sent."""
    message = _parsed(LogMessage, log.body, f"log record of {log.trace_id}")
    if log.refs:
        put_back(message, log.refs, fetch.bodies, fetch.context)
    return message


def log_view(log: LogRecord, fetch: Fetch) -> LogView:
    """The log record as dialects read it."""
    message, scope = log_message(log, fetch), scope_of(log.scope)
    return LogView(
        trace_id=log.trace_id,
        span_id=log.span_id,
        at_ns=message.time_unix_nano or message.observed_time_unix_nano,
        name=log.name,
        severity=log.severity,
        body=value_of(message.body),
        attributes=attributes_of(message.attributes),
        scope=scope.name,
        resource=scope.resource,
    )


@lru_cache(maxsize=512)
def scope_of(scope: bytes) -> Scope:
    """What stands around spans or log records: ResourceLogs without its records reads like ResourceSpans."""
    block = _parsed(ResourceSpans, scope, "scope")
    told = block.scope_spans[0].scope if block.scope_spans else ResourceSpans().scope_spans.add().scope
    return Scope(attributes_of(block.resource.attributes), told.name, told.version, attributes_of(told.attributes))


def attributes_of(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Attributes as a dict; of a name that comes twice the last one counts."""
    return {attribute.key: value_of(attribute.value) for attribute in attributes}


def value_of(value: AnyValue) -> Any:
    """A value in builtins; None where it has none."""
    if text := value.string_value:  # most are texts, and asking for the kind takes as long again
        return text
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return attributes_of(value.kvlist_value.values)
    return None if kind is None or kind == "string_value_strindex" else getattr(value, kind)


def _span_rest(span: Span, fetch: Fetch) -> SpanMessage:
    """The message without what has a field of its own."""
    message = _parsed(SpanMessage, span.body, f"span {span.span_id} of trace {span.trace_id}")
    if span.refs:
        put_back(message, span.refs, fetch.bodies, fetch.context)
    return message


def _parsed(kind: type[Message], body: bytes, what: str) -> Message:
    try:
        message: Message = kind.FromString(body)
    except DecodeError as error:
        raise UnreadableInput(f"The stored {what} is damaged: {error}. Check the store with: dashcam verify") from error
    return message

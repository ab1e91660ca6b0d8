"""The requests in tests/data/otlp as the views that dialects read: decoded by the standard's own library alone."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from dashcam.dialects.otlp.reading import EventView, LogView, SpanView

SAMPLES = Path(__file__).parents[1] / "data" / "otlp"
_STATUS = ("unset", "ok", "error")
_IDS = ("traceId", "spanId", "parentSpanId")


def senders() -> list[str]:
    """Everybody of whom there are requests."""
    return sorted(folder.name for folder in SAMPLES.iterdir() if folder.is_dir())


def spans(sender: str) -> list[SpanView]:
    """All spans of a sender, in the order in which they came."""
    return [view for body in _requests(sender, "v1/traces", ExportTraceServiceRequest) for view in _spans(body)]


def logs(sender: str) -> list[LogView]:
    """All log records of a sender, in the order in which they came."""
    return [view for body in _requests(sender, "v1/logs", ExportLogsServiceRequest) for view in _logs(body)]


def logs_of(span: SpanView, records: list[LogView]) -> list[LogView]:
    """The log records that belong to a span."""
    return [log for log in records if (log.trace_id, log.span_id) == (span.trace_id, span.span_id)]


def _requests(sender: str, path: str, message: Any) -> Iterator[Any]:
    for body in sorted((SAMPLES / sender).glob("*.body")):
        request = json.loads(body.with_suffix(".headers.json").read_text())
        headers = {name.lower(): value for name, value in request["headers"].items()}
        if not request["path"].endswith(path):
            continue
        raw = body.read_bytes()
        if headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        if headers["content-type"].startswith("application/json"):
            yield ParseDict(_with_base64_ids(json.loads(raw)), message(), ignore_unknown_fields=True)
        else:
            yield message.FromString(raw)


def _with_base64_ids(value: Any) -> Any:
    """OTLP/JSON writes ids in hex, where protobuf's JSON has base64."""
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in _IDS else _with_base64_ids(item)
        for key, item in value.items()
    }


def _spans(request: Any) -> Iterator[SpanView]:
    for around in request.resource_spans:
        resource = _attributes(around.resource.attributes)
        for within in around.scope_spans:
            for span in within.spans:
                yield SpanView(
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_span_id=span.parent_span_id.hex() or None,
                    name=span.name,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    status=_STATUS[span.status.code],
                    status_message=span.status.message,
                    attributes=_attributes(span.attributes),
                    events=[EventView(e.name, e.time_unix_nano, _attributes(e.attributes)) for e in span.events],
                    scope=within.scope.name,
                    resource=resource,
                )


def _logs(request: Any) -> Iterator[LogView]:
    for around in request.resource_logs:
        resource = _attributes(around.resource.attributes)
        for within in around.scope_logs:
            for record in within.log_records:
                attributes = _attributes(record.attributes)
                yield LogView(
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex() or None,
                    at_ns=record.time_unix_nano or record.observed_time_unix_nano,
                    # Codex puts a place in its source there and the name among the attributes.
                    name=str(attributes.get("event.name") or record.event_name),
                    severity=record.severity_text,
                    body=_value(record.body),
                    attributes=attributes,
                    scope=within.scope.name,
                    resource=resource,
                )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind) if kind else None

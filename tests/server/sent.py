"""Export requests to send: spans and log records with ids of their own."""

from __future__ import annotations

import os

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
START = 1_800_000_000_000_000_000


def traces(count: int = 1, *, trace_id: bytes | None = None, note: str = "") -> tuple[str, ExportTraceServiceRequest]:
    """A trace of `count` spans, and its id."""
    trace_id = trace_id or os.urandom(16)
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(1, count + 1):
        span = scope.spans.add(trace_id=trace_id, span_id=number.to_bytes(8), name=f"step {number}")
        span.start_time_unix_nano, span.end_time_unix_nano = START + number, START + number + 1000
        span.attributes.append(KeyValue(key="note", value=AnyValue(string_value=note or f"note {number}")))
    return trace_id.hex(), request


def traces_body(count: int = 1, **given: bytes) -> tuple[str, bytes]:
    trace_id, request = traces(count, **given)  # type: ignore[arg-type]
    return trace_id, request.SerializeToString()


def logs(*, trace_id: bytes = b"", text: str = "hello") -> bytes:
    """A log record; without a trace it belongs to nothing."""
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(trace_id=trace_id, time_unix_nano=START)
    record.body.string_value = text
    return bytes(request.SerializeToString())

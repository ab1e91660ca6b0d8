"""A small request is never more than a bounded amount of work and memory."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dashcam.dialects.otlp import counting, wire
from dashcam.errors import UnreadableInput


def request_of(scopes: int, spans: int, resource: int = 0) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    attribute = block.resource.attributes.add()
    attribute.key, attribute.value.string_value = "filler", "x" * resource
    for _ in range(scopes):
        scope = block.scope_spans.add()
        for _ in range(spans):
            scope.spans.add()
    return request


def test_more_records_than_a_request_may_hold_are_refused_before_they_are_parsed() -> None:
    few = request_of(1, 1_000).SerializeToString()
    assert len(wire.parse_traces(few, "protobuf").resource_spans[0].scope_spans[0].spans) == 1_000
    with pytest.raises(UnreadableInput, match="Send them in several"):
        wire.parse_traces(request_of(1, counting.MOST).SerializeToString(), "protobuf")
    with pytest.raises(UnreadableInput, match="Send them in several"):
        wire.parse_traces(request_of(counting.MOST, 0).SerializeToString(), "protobuf")


def test_a_resource_that_every_scope_would_repeat_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "REPEATED", 100_000)
    assert wire.receive_traces(request_of(9, 0, resource=10_000), None).spans == []
    with pytest.raises(UnreadableInput, match="requests of their own"):
        wire.receive_traces(request_of(11, 0, resource=10_000), None)
    with pytest.raises(UnreadableInput, match="requests of their own"):
        wire.receive_traces(request_of(1, 11, resource=10_000), None)

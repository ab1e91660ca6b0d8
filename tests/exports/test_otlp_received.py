"""Spans that came as OpenTelemetry leave to the letter, with their resource and their scope."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dashcam.dialects.otlp.json_form import read_json
from dashcam.dialects.otlp.wire import parse_traces
from dashcam.exports import otlp
from dashcam.store.base import SessionFilter
from dashcam.store.sqlite.store import SqliteStore

sys.path.insert(0, str(Path(__file__).parents[1] / "record"))
from sender_sessions import DATA, SENDERS, receive

Told = set[tuple[bytes, bytes]]

pytestmark = pytest.mark.slow


def told_in(requests: Iterable[ExportTraceServiceRequest]) -> Told:
    """Each span with the resource and scope around it, as bytes."""
    found: Told = set()
    for request in requests:
        for block in request.resource_spans:
            for scope in block.scope_spans:
                around = (block.resource, block.schema_url, scope.scope, scope.schema_url)
                where = b"".join(
                    part.encode() if isinstance(part, str) else part.SerializeToString(deterministic=True)
                    for part in around
                )
                found |= {(where, span.SerializeToString(deterministic=True)) for span in scope.spans}
    return found


def sent_by(sender: str) -> Told:
    requests = []
    for headers in sorted((DATA / sender).glob("*traces.headers.json")):
        named = {name.lower(): value for name, value in json.loads(headers.read_text())["headers"].items()}
        body = headers.with_name(headers.name.replace(".headers.json", ".body")).read_bytes()
        body = gzip.decompress(body) if named.get("content-encoding") == "gzip" else body
        requests.append(parse_traces(body, "json" if "json" in named["content-type"] else "protobuf"))
    return told_in(requests)


@pytest.mark.parametrize("sender", SENDERS)
def test_every_span_of_a_sender_comes_back(sender: str, store: SqliteStore) -> None:
    receive(store, sender)
    sessions = [each.session_id for each in store.sessions(SessionFilter(kind=None, limit=1000))]
    written = b"".join(otlp.write(store, sessions))
    assert told_in([read_json(written, ExportTraceServiceRequest)]) == sent_by(sender)


def test_spans_that_leave_in_small_requests_are_the_same(store: SqliteStore) -> None:
    receive(store, "traceloop")
    bodies = [body for _, body in otlp.requests(store, ["sess-tl-1"], spans=3, size=1 << 20)]
    assert len(bodies) > 3
    assert told_in(read_json(body, ExportTraceServiceRequest) for body in bodies) == sent_by("traceloop")

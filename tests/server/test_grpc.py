"""OTLP over gRPC, with the real exporter and by hand."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from sent import PROTOBUF, logs, traces
from server_process import ServerProcess, holding, serving, stored

from dashcam.store.control import Control

pytestmark = pytest.mark.slow
TRACES, LOGS, METRICS = (
    f"/opentelemetry.proto.collector.{name.lower()}.v1.{name}Service/Export" for name in ("Trace", "Logs", "Metrics")
)


def export(channel: grpc.Channel, method: str, message: bytes, **how: object) -> bytes:
    return bytes(channel.unary_unary(method)(message, **how))


@pytest.fixture
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc) as opened:
        yield opened


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_the_exporter_of_opentelemetry_delivers(server: ServerProcess, compression: grpc.Compression) -> None:
    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=server.grpc, insecure=True, compression=compression)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("over gRPC") as span:
        pass
    provider.shutdown()
    with stored(server.data) as store:
        assert [found.name for found in store.spans(f"{span.get_span_context().trace_id:032x}")] == ["over gRPC"]


def test_all_three_services_answer(server: ServerProcess, channel: grpc.Channel) -> None:
    trace_id, request = traces(2)
    assert export(channel, TRACES, request.SerializeToString()) == b""  # no partial success
    assert export(channel, LOGS, logs(trace_id=bytes.fromhex(trace_id))) == b""
    assert export(channel, METRICS, b"") == b""
    with stored(server.data) as store:
        assert (len(store.spans(trace_id)), len(store.logs(trace_id))) == (2, 1)


def test_what_cant_be_read_is_an_invalid_argument(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        export(channel, TRACES, b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "protobuf" in caught.value.details()


def test_an_unknown_method_is_unimplemented(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        export(channel, "/some.Service/Method", b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_too_much_at_once_says_when_to_come_back(data: Path) -> None:
    with serving(data, "--max-queued", "1", "--max-body", "1") as server, grpc.insecure_channel(server.grpc) as channel:
        _, request = traces(1, note=os.urandom(100_000).hex())
        with holding(server, 900_000), pytest.raises(grpc.RpcError) as caught:
            export(channel, TRACES, request.SerializeToString())
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        (details,) = (value for key, value in caught.value.trailing_metadata() if key == "grpc-status-details-bin")
        retry = RetryInfo()
        assert Status.FromString(details).details[0].Unpack(retry)
        assert retry.retry_delay.seconds >= 1


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_beyond_the_limit_is_refused_however_small_it_was_sent(
    data: Path, compression: grpc.Compression
) -> None:
    with serving(data, "--max-body", "1") as server, grpc.insecure_channel(server.grpc) as channel:
        _, request = traces(1, note="x" * (4 << 20))
        with pytest.raises(grpc.RpcError) as caught:
            export(channel, TRACES, request.SerializeToString(), compression=compression)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert export(channel, TRACES, traces(1)[1].SerializeToString()) == b""


def test_where_keys_are_required_each_opens_its_own_project(data: Path) -> None:
    with Control(data) as control:
        _, key = control.create("theirs", ["ingest"])
    trace_id, request = traces(1)
    body = request.SerializeToString()
    with serving(data, "--require-key") as server, grpc.insecure_channel(server.grpc) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            export(channel, TRACES, body)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert export(channel, TRACES, body, metadata=[("authorization", f"Bearer {key}")]) == b""
        refused = server.http.post("/v1/traces", content=body, headers=PROTOBUF)
        assert refused.status_code == 401
        assert Status.FromString(refused.content).code == 16
        assert refused.headers["www-authenticate"].startswith("Bearer")
        with_key = {**PROTOBUF, "authorization": f"Bearer {key}"}
        assert server.http.post("/v1/traces", content=body, headers=with_key).status_code == 200
        basic = {**PROTOBUF, "authorization": "Basic " + b64encode(f"pk:{key}".encode()).decode()}
        assert server.http.post("/api/public/otel/v1/traces", content=body, headers=basic).status_code == 200
        assert server.http.get("/metrics", headers=with_key).status_code == 403
    with stored(data, "theirs") as store:
        assert len(store.spans(trace_id)) == 1
    with stored(data) as store:
        assert store.spans(trace_id) == []

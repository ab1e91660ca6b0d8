"""OTLP over HTTP, sent by hand and by the real exporters."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from sent import JSON, PROTOBUF, logs, traces, traces_body
from server_process import ServerProcess, eventually, serving, stored

SAMPLES = sorted((Path(__file__).parent.parent / "data" / "otlp").glob("*/*.body"))
pytestmark = pytest.mark.slow


def spans_of(server: ServerProcess, trace_id: str) -> list[str]:
    with stored(server.data) as store:
        return sorted(span.name for span in store.spans(trace_id))


def test_spans_are_in_the_store_when_the_answer_comes(server: ServerProcess) -> None:
    trace_id, body = traces_body(3)
    answer = server.http.post("/v1/traces", content=body, headers=PROTOBUF)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert spans_of(server, trace_id) == ["step 1", "step 2", "step 3"]


def test_a_request_that_is_sent_again_adds_nothing(server: ServerProcess) -> None:
    trace_id, body = traces_body(2)
    for _ in range(3):
        assert server.http.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    assert len(spans_of(server, trace_id)) == 2


def test_json_is_answered_as_json(server: ServerProcess) -> None:
    trace_id, request = traces(1)
    told = MessageToDict(request)
    for span in told["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        span["traceId"], span["spanId"] = (
            trace_id,
            "00000000000000ab",
        )  # OTLP's JSON has hex where protobuf's has base64
    answer = server.http.post(
        "/v1/traces", content=msgspec.json.encode(told), headers={"content-type": "application/json; charset=utf-8"}
    )
    assert (answer.status_code, answer.json()) == (200, {})
    assert spans_of(server, trace_id) == ["step 1"]


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)]
)
def test_compressed_bodies_are_read(server: ServerProcess, encoding: str, pack: type[bytes]) -> None:
    trace_id, body = traces_body(1)
    answer = server.http.post("/v1/traces", content=pack(body), headers={**PROTOBUF, "content-encoding": encoding})
    assert answer.status_code == 200
    assert spans_of(server, trace_id) == ["step 1"]


def test_chunked_bodies_are_read(server: ServerProcess) -> None:
    trace_id, body = traces_body(5)

    def pieces() -> Iterator[bytes]:
        yield from (body[at : at + 7] for at in range(0, len(body), 7))

    assert server.http.post("/v1/traces", content=pieces(), headers=PROTOBUF).status_code == 200
    assert len(spans_of(server, trace_id)) == 5


def test_a_log_record_joins_its_trace_and_one_without_is_kept_in_quarantine_once(server: ServerProcess) -> None:
    trace_id, text = os.urandom(16), os.urandom(8).hex()
    for body in (logs(trace_id=trace_id), logs(text=text), logs(text=text)):
        assert server.http.post("/v1/logs", content=body, headers=PROTOBUF).status_code == 200
    with stored(server.data) as store:
        assert len(store.logs(trace_id.hex())) == 1
        assert sum(text.encode() in orphan.body for orphan in store.orphans()) == 1


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_real_senders_send_is_taken_with_the_headers_that_they_send(server: ServerProcess, sample: Path) -> None:
    request = msgspec.json.decode(sample.with_suffix(".headers.json").read_bytes())
    own = ("content-type", "content-encoding", "user-agent", "authorization")
    headers = {name: value for name, value in request["headers"].items() if name in own}
    answer = server.http.post(request["path"], content=sample.read_bytes(), headers=headers)
    assert answer.status_code in (200, 202), answer.text


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sample=st.sampled_from(SAMPLES),
    cuts=st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(max_size=8)), max_size=8),
)
def test_bodies_that_were_damaged_on_the_way_harm_nobody(
    server: ServerProcess, sample: Path, cuts: list[tuple[int, bytes]]
) -> None:
    request = msgspec.json.decode(sample.with_suffix(".headers.json").read_bytes())
    body = bytearray(sample.read_bytes())
    for at, put in cuts:
        body[at % (len(body) + 1) : at % (len(body) + 1) + len(put)] = put
    headers = {
        name: value for name, value in request["headers"].items() if name in ("content-type", "content-encoding")
    }
    answer = server.http.post(request["path"], content=bytes(body), headers=headers)
    assert answer.status_code in (200, 202, 207, 400), answer.text


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/metrics", "/api/public/otel/v1/traces"])
def test_what_cant_be_read_is_a_400_that_says_so_in_the_form_of_the_request(server: ServerProcess, path: str) -> None:
    binary = server.http.post(path, content=b"\xff\xff\xff", headers=PROTOBUF)
    assert binary.status_code == 400
    assert binary.headers["content-type"] == "application/x-protobuf"
    assert Status.FromString(binary.content).code == 3
    assert Status.FromString(binary.content).message
    text = server.http.post(path, content=b'{"resourceSpans": 1', headers=JSON)
    assert text.status_code == 400
    assert text.json()["code"] == 3
    assert text.json()["message"]
    assert "retry-after" not in text.headers


def test_an_unreadable_request_harms_none_of_its_neighbours(server: ServerProcess) -> None:
    import threading

    trace_id = os.urandom(16)
    answers: list[int] = []

    def send(number: int) -> None:
        body = b"\xff" * 50 if number % 2 else traces_body(number + 1, trace_id=trace_id)[1]
        answers.append(server.http.post("/v1/traces", content=body, headers=PROTOBUF).status_code)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200] * 10 + [400] * 10
    assert len(spans_of(server, trace_id.hex())) == 19


def test_other_types_and_encodings_are_a_415(server: ServerProcess) -> None:
    _, body = traces_body()
    assert server.http.post("/v1/traces", content=body, headers={"content-type": "text/plain"}).status_code == 415
    assert server.http.post("/v1/traces", content=body).status_code == 415
    answer = server.http.post("/v1/traces", content=body, headers={**PROTOBUF, "content-encoding": "br"})
    assert answer.status_code == 415
    assert "gzip" in Status.FromString(answer.content).message


def test_what_says_gzip_and_isnt_is_a_400(server: ServerProcess) -> None:
    _, body = traces_body()
    for wrong in (body, gzip.compress(body)[:-9], gzip.compress(body) + b"rest"):
        answer = server.http.post("/v1/traces", content=wrong, headers={**PROTOBUF, "content-encoding": "gzip"})
        assert answer.status_code == 400


def test_secrets_are_taken_out_before_anything_is_written(server: ServerProcess) -> None:
    secret = "sk-" + "proj-" + os.urandom(24).hex()
    trace_id, request = traces(1, note=f"the key is {secret}")
    assert server.http.post("/v1/traces", content=request.SerializeToString(), headers=PROTOBUF).status_code == 200
    with stored(server.data) as store:
        (span,) = store.spans(trace_id)
    assert span.redacted
    files = [path.read_bytes() for path in server.data.rglob("sessions.db*")]
    assert not any(secret.encode() in content for content in files)


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip, Compression.Deflate])
def test_the_exporter_of_opentelemetry_delivers(server: ServerProcess, compression: Compression) -> None:
    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"{server.url}/v1/traces", compression=compression)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("parent") as parent:
        for _ in range(10):
            with provider.get_tracer("test").start_as_current_span("child"):
                pass
    provider.shutdown()
    assert spans_of(server, f"{parent.get_span_context().trace_id:032x}") == ["child"] * 10 + ["parent"]


def test_a_trace_becomes_a_session_soon_after_it_was_sent(data: Path) -> None:
    sample = SAMPLES[0].parent.parent / "pydantic-ai-v5" / "001-v1_traces.body"
    with serving(data) as server:
        assert server.http.post("/v1/traces", content=sample.read_bytes(), headers=PROTOBUF).status_code == 200
        eventually(lambda: server.http.get("/api/sessions/conv-123").status_code == 200)
        eventually(lambda: server.http.get("/api/sessions/conv-123/messages").json()["items"])

"""A storm of bodies that nobody would send: no 5xx, no crash, and afterwards everything is as before."""

from __future__ import annotations

import gzip
import json
import random
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sent import JSON, PROTOBUF, START, traces_body
from server_process import ServerProcess, eventually, serving

import dashcam

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[1] / "data" / "otlp"
MAX_BODY = 4 << 20
MAX_INFLATED = 8 << 20
METHOD = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
OF_A_SESSION = ("", "/messages", "/parts", "/turns", "/turns/1", "/calls", "/traces", "/timeline", "/scores", "/export")
OF_A_TRACE = ("", "/spans", "/logs", "/scores", "/timeline")
ALARMS = ("request failed", "ingest failed", "projector died", "not projected", "Traceback")
Sample = tuple[str, str, bytes]  # path, content type, body as it is without compression


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    limits = ("--max-body", str(MAX_BODY >> 20), "--max-decompressed", str(MAX_INFLATED >> 20), "--body-timeout", "2")
    with serving(tmp_path_factory.mktemp("fuzzed") / "data", *limits) as running:
        yield running


@pytest.fixture(autouse=True)
def _survives(server: ServerProcess) -> Iterator[None]:
    """Whatever a test sends: the same process answers, takes a good body and makes a session of it."""
    yield
    assert server.http.get("/health").status_code == 200
    assert server.process.poll() is None
    trace_id, body = traces_body(3)
    assert server.http.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    eventually(lambda: server.http.get(f"/api/sessions/trace:{trace_id}").status_code == 200, 60)
    eventually(lambda: server.http.get("/api/status").json()["lag"]["records"] == 0, 60)
    assert server.metric("dashcam_projector_restarts_total") == 0
    assert server.metric("dashcam_queue_bytes") == 0
    assert [line for line in server.said.splitlines() if any(alarm in line for alarm in ALARMS)] == []


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    found = []
    for file in sorted(SAMPLES.glob("*/*.body")):
        sent = json.loads(file.with_suffix(".headers.json").read_text())
        body = file.read_bytes()
        if sent["headers"].get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        found.append((sent["path"], sent["headers"]["content-type"], body))
    return found


def send(server: ServerProcess, path: str, body: bytes, headers: dict[str, str]) -> int:
    said = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = server.http.post(path, content=body, headers={name.encode(): value for name, value in said.items()})
    assert answer.status_code < 500, (path, headers, body[:200], answer.text)
    return answer.status_code


def read_everything(server: ServerProcess) -> int:
    """Every view of every session and trace; how many there were."""
    eventually(lambda: server.http.get("/api/status").json()["lag"]["records"] == 0, 60)
    sessions = [item["id"] for item in _all(server, "/api/sessions?kind=all")]
    traces = [item["trace_id"] for item in _all(server, "/api/traces?")]
    paths = [f"/api/sessions/{quote(each, safe='')}{rest}" for each in sessions for rest in OF_A_SESSION]
    paths += [f"/api/traces/{quote(each, safe='')}{rest}" for each in traces for rest in OF_A_TRACE]
    for path in [*paths, "/api/events", "/api/orphans", "/api/joinability", "/api/prompts", "/api/search?q=a"]:
        answer = server.http.get(path)
        assert answer.status_code in (200, 404), (path, answer.text)
        if answer.headers["content-type"] == "application/json":
            with suppress(RecursionError):  # what was recorded is as deep as it is
                json.loads(answer.content)
    return len(sessions) + len(traces)


def _all(server: ServerProcess, path: str) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        answer = server.http.get(f"{path}&limit=200&cursor={quote(cursor, safe='')}")
        assert answer.status_code == 200, answer.text
        yield from answer.json()["items"]
        if (cursor := answer.json()["next"]) is None:
            return


def mutated(chance: random.Random, body: bytes, other: bytes) -> bytes:
    """Bits turned, a piece cut out, said twice, cut off, or taken from another body."""
    changed = bytearray(body)
    for _ in range(chance.choice((1, 1, 2, 5, 40))):
        at = chance.randrange(len(changed) + 1)
        size = chance.choice((1, 2, 8, 100, 2000))
        match chance.randrange(6):
            case 0 | 1 if at < len(changed):
                changed[at] ^= 1 << chance.randrange(8)
            case 2:
                del changed[at : at + size]
            case 3:
                changed[at:at] = changed[at : at + size]
            case 4:
                start = chance.randrange(len(other) + 1)
                changed[at : at + size] = other[start : start + size]
            case _:
                changed[at : at + 1] = chance.choice((b"\xff", b"\x00", b"\x80" * 9, b'"', b"}", b"9" * 30, b"null"))
    return bytes(changed[: chance.randrange(len(changed) + 1)] if chance.random() < 0.1 else changed)


def test_bodies_with_something_wrong_in_them_over_http(server: ServerProcess, samples: list[Sample]) -> None:
    chance = random.Random(1)
    told = set()
    for _ in range(900):
        path, kind, body = chance.choice(samples)
        broken = mutated(chance, body, chance.choice(samples)[2])
        told.add(send(server, path, broken, {"content-type": kind}))
    assert told >= {200, 400}
    assert read_everything(server) > 20


def test_bodies_with_something_wrong_in_them_over_grpc(server: ServerProcess, samples: list[Sample]) -> None:
    chance = random.Random(2)
    told = set()
    binary = [(path, body) for path, kind, body in samples if "protobuf" in kind]
    with grpc.insecure_channel(server.grpc) as channel:
        for _ in range(400):
            path, body = chance.choice(binary)
            names = ("logs", "Logs") if path.endswith("logs") else ("trace", "Trace")
            try:
                channel.unary_unary(METHOD.format(*names))(mutated(chance, body, chance.choice(binary)[1]), timeout=30)
                told.add(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                told.add(error.code())
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(METHOD.format("trace", "Trace"))(bytes(MAX_BODY + 1), timeout=30)
    assert told == {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


LEAVES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2**53, 2**63, 2**64, -(2**63) - 1, 10**40, float("inf"), float("nan"), 1e308, "", "0",
    "-1", "NaN", "Infinity", "18446744073709551616", "ab" * 16, "cd" * 8, "AAAAAAAAAAAAAAAAAAAAAA==", "\x00", "\ud800",
    "\U0010ffff", "ü" * 300, "1800000000000000000", "STATUS_CODE_ERROR", "SPAN_KIND_CLIENT", [], {}, [[]], {"": {}},
)  # fmt: skip
FIELDS = (
    "resourceSpans", "scopeSpans", "spans", "resourceLogs", "scopeLogs", "logRecords", "resource", "scope", "attributes",
    "key", "value", "stringValue", "intValue", "doubleValue", "boolValue", "bytesValue", "arrayValue", "kvlistValue",
    "values", "traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano", "status",
    "code", "message", "events", "links", "body", "severityNumber", "timeUnixNano", "eventName", "flags", "unknown",
)  # fmt: skip
KEYS = (
    "session.id", "gen_ai.conversation.id", "gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.usage.input_tokens",
    "gen_ai.output.messages", "gen_ai.system_instructions", "openinference.span.kind", "input.value", "llm.input_messages",
    "llm.input_messages.0.message.role", "langfuse.observation.type", "ai.prompt.messages", "ai.usage.promptTokens",
    "all_messages_events", "pydantic_ai.all_messages", "traceloop.span.kind", "gen_ai.tool.call.arguments",
    "gen_ai.response.model", "gen_ai.request.model", "gen_ai.tool.definitions", "gen_ai.usage.cost",
)  # fmt: skip


def shaped(chance: random.Random) -> dict[str, Any]:
    """A request in the shape of OTLP, in which any one thing may be another."""

    def maybe(value: Any) -> Any:
        return chance.choice(LEAVES) if chance.random() < 0.04 else value

    def anything(depth: int) -> Any:
        if depth == 0 or chance.random() < 0.4:
            return chance.choice(LEAVES)
        if chance.random() < 0.3:
            return [anything(depth - 1) for _ in range(chance.randrange(4))]
        return {chance.choice(FIELDS): anything(depth - 1) for _ in range(chance.randrange(4))}

    def attributes() -> Any:
        names = ("stringValue", "stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue")
        usual = {"stringValue": "text", "intValue": "7", "doubleValue": 0.5, "boolValue": True}
        said = []
        for _ in range(chance.randrange(8)):
            name = chance.choice(names)
            value = json.dumps(anything(4)) if name == "stringValue" and chance.random() < 0.5 else usual.get(name, {})
            said.append(maybe({"key": maybe(chance.choice(KEYS)), "value": maybe({name: maybe(value)})}))
        return maybe(said)

    def span() -> Any:
        said = {"traceId": chance.randbytes(16).hex(), "spanId": chance.randbytes(8).hex(), "name": "chat",
                "startTimeUnixNano": str(START), "endTimeUnixNano": str(START + 5), "attributes": attributes(),
                "events": [{"name": "gen_ai.choice", "attributes": attributes()}]}  # fmt: skip
        return maybe({name: maybe(value) for name, value in said.items()})

    spans = maybe([span() for _ in range(chance.randrange(4))])
    scope = {"scope": maybe({"name": "pydantic-ai"}), "spans": spans}
    return {"resourceSpans": maybe([maybe({"resource": {"attributes": attributes()}, "scopeSpans": maybe([scope])})])}


def test_json_that_is_nearly_otlp(server: ServerProcess) -> None:
    chance = random.Random(3)
    told = [send(server, "/v1/traces", json.dumps(shaped(chance)).encode(), JSON) for _ in range(600)]
    assert set(told) == {200, 400}
    assert told.count(200) > 50
    read_everything(server)


def test_journals_with_something_wrong_in_them(server: ServerProcess, tmp_path: Path) -> None:
    """Lines of a recorder with bits turned, each way its own segment; numbers and nesting that only some can read."""
    dashcam.configure(data=tmp_path, url="")
    try:
        with dashcam.record_session("chat", agent="helper") as session:
            for number in range(4):
                session.user(f"question {number}")
                session.assistant("answer", model="gpt-4o", system_prompt="Be brief.")
    finally:
        dashcam.configure()
    lines = b"".join(file.read_bytes() for file in sorted(tmp_path.rglob("*.jsonl")))
    assert lines.count(b"\n") > 20
    chance = random.Random(6)
    bodies = [mutated(chance, lines, lines) for _ in range(150)]
    call = b'{"session_id":"s%d","trace_id":"t%d","step":1,"kind":"user","operation":"model_call","model":"m",'
    for depth in (*range(0, 900, 100), *range(900, 1000, 4)):  # just below, and just beyond, what can be read
        said = b'"ts":"2026-01-01T00:00:00Z","input_tokens":%s,"cost_usd":1e308,"settings":' % (b"9" * (depth % 40 + 1))
        bodies.append(call % (depth, depth) + said + b'{"a":' * depth + b"1" + b"}" * depth + b"}\n")
    for number, body in enumerate(bodies):
        headers = {"X-Dashcam-Segment": f"fuzzed-{number}.jsonl", "X-Dashcam-Offset": "0"}
        send(server, "/v1/records", body, headers | {"content-type": "application/x-ndjson"})
    read_everything(server)


@pytest.mark.parametrize("depth", [50, 500, 5_000, 200_000])
def test_deep_nesting(server: ServerProcess, depth: int) -> None:
    kvlist = b'{"kvlistValue":{"values":[{"key":"k","value":' * depth + b"{}" + b"}]}}" * depth
    span = b'{"traceId":"%s","spanId":"%s","attributes":[{"key":"k","value":%s}]}' % (b"a1" * 16, b"b2" * 8, kvlist)
    for value in (b"[" * depth, b"[" * depth + b"]" * depth, b'{"resourceSpans":' * depth):
        send(server, "/v1/traces", value, JSON)
        send(server, "/api/public/scores", value, JSON)
        send(server, "/api/public/ingestion", b'{"batch":' + value, JSON)
    send(server, "/v1/traces", b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + span[:MAX_BODY] + b"]}]}]}", JSON)
    inner = b""
    for _ in range(min(depth, 5_000)):  # AnyValue.kvlist_value.values.value, around and around
        for tag in (b"\x12", b"\x0a", b"\x32"):
            inner = tag + _length(inner) + inner
    attribute = b"\x0a\x01k\x12" + _length(inner) + inner
    body = b"\x0a\x10" + b"\xa3" * 16 + b"\x12\x08" + b"\xb4" * 8 + b"\x4a" + _length(attribute) + attribute
    for _ in range(3):  # a span in its scope in its resource
        body = b"\x12" + _length(body) + body
    send(server, "/v1/traces", b"\x0a" + body[1:], PROTOBUF)


def _length(value: bytes) -> bytes:
    size, said = len(value), bytearray()
    while size > 0x7F:
        said.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*said, size])


def test_odd_types_encodings_and_bombs(server: ServerProcess, samples: list[Sample]) -> None:
    _, good = traces_body()
    odd = ("", "text/plain", "application/grpc", "application/json; charset=utf-16", "application/x-protobuf;;=",
           "a" * 5000, "multipart/form-data", "application/json, application/x-protobuf", "\xff\xfe")  # fmt: skip
    for kind in odd:
        for path in ("/v1/traces", "/v1/logs", "/v1/metrics", "/v1/records", "/api/public/scores", "/api/keys"):
            send(server, path, good, {"content-type": kind})
    for encoding in ("gzip", "deflate", "br", "gzip, gzip", "identity", "\xe4", "x" * 3000, "zstd"):
        for body in (good, b"", gzip.compress(good)[:-4], zlib.compress(good), b"\x1f\x8b" + bytes(100)):
            send(server, "/v1/traces", body, PROTOBUF | {"content-encoding": encoding})
    bomb = gzip.compress(bytes(MAX_INFLATED * 20), 9)
    for path in ("/v1/traces", "/v1/records", "/api/public/scores", "/api/public/ingestion"):
        headers = {"content-type": "application/x-ndjson" if "records" in path else "application/json"}
        headers |= {"content-encoding": "gzip", "X-Dashcam-Segment": "a.jsonl", "X-Dashcam-Offset": "0"}
        assert send(server, path, bomb, headers) == 413
        # Once decompressed it is some bytes: no request, but a line of a journal, if one for quarantine.
        assert send(server, path, gzip.compress(bomb), headers) == (200 if "records" in path else 400)
    assert send(server, "/v1/traces", gzip.compress(b"") * 5000, PROTOBUF | {"content-encoding": "gzip"}) == 400
    assert send(server, "/v1/traces", bytes(MAX_BODY + 1), PROTOBUF) == 413


def test_odd_headers_and_wires(server: ServerProcess) -> None:
    """By hand, as no client writes it. What is no HTTP gets no answer, or a 4xx."""
    chance = random.Random(4)
    post = b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    wires = [
        chunked + b"2\r\n{}\r\n0\r\n\r\n",
        chunked + b"".join(b"1\r\n%c\r\n" % byte for byte in b"{ }") + b"0\r\n\r\n",
        chunked + b"zz\r\n{}\r\n0\r\n\r\n",
        chunked + b"fffffffffffffffff\r\n{}",
        chunked + b"2;%s\r\n{}\r\n0\r\n\r\n" % (b"x" * 100_000),
        post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        post + b"Content-Length: -1\r\n\r\n{}",
        post + b"Content-Length: 99999999999999999999999\r\n\r\n{}",
        post + b"Content-Length: 50\r\n\r\n{}",  # and no more
        post + b"Content-Length: 2\r\nX-Long: " + b"x" * 200_000 + b"\r\n\r\n{}",
        post + b"".join(b"X-%d: y\r\n" % number for number in range(5_000)) + b"Content-Length: 2\r\n\r\n{}",
        post + b"Content-Length: 2\r\nAuthorization: Bearer " + b"d" * 30_000 + b"\r\n\r\n{}",
        post + b"Content-Length: 2\r\nAuthorization: Basic \xff\xfe====\r\n\r\n{}",
        post + b"Content-Length: 2\r\nTraceparent: \x80\x81\r\n\r\n{}",
        post + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n{}",
        (post + b"Content-Length: 2\r\n\r\n{}") * 20,
        b"GET /api/sessions/" + b"%" * 3000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/sessions/%2f%2F%00%ff%c0%af..%2f..%2fetc HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET //api//sessions/../../x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET http://elsewhere/api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/sessions?" + b"a=b&" * 12_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/sessions?limit=" + b"9" * 5_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/sessions/x/turns/" + b"9" * 5_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /api/sessions HTTP/1.1\r\n\r\n",
        b"GET /api/sessions HTTP/1.1\r\nHost: [::::\r\n\r\n",
        b"GET /health HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(500),
        b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        *(chance.randbytes(300) for _ in range(20)),
    ]
    for wire in wires:
        for line in answers_to(server, wire):
            assert 100 <= int(line.split()[1]) < 500, (wire[:200], line)


def answers_to(server: ServerProcess, wire: bytes) -> list[bytes]:
    """The first lines of the answers to some bytes on a connection of their own."""
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=5) as connection:
        said = b""
        try:
            connection.sendall(wire)
            connection.settimeout(0.15)
            while piece := connection.recv(65536):
                said += piece
        except OSError:
            pass  # it has said all that it has to say
    return [line for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


def test_a_body_that_drips_is_given_up(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), timeout=20) as connection:
        head = b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head)
        connection.setblocking(False)
        said, deadline = b"", time.monotonic() + 20
        while not said and time.monotonic() < deadline:
            connection.send(b" ")
            time.sleep(0.2)
            try:
                said = connection.recv(1000)
            except BlockingIOError:
                continue
    assert said.startswith(b"HTTP/1.1 408 ")


def test_spans_that_are_valid_and_hostile(server: ServerProcess) -> None:
    """Each in a request of its own, taken, projected, and to be read in every way."""
    hostile = dict(hostile_traces())
    for name, request in hostile.items():
        body = request.SerializeToString()
        path = "/v1/logs" if isinstance(request, ExportLogsServiceRequest) else "/v1/traces"
        assert send(server, path, body, PROTOBUF) == 200, name
    assert read_everything(server) > len(hostile)


def hostile_traces() -> Iterator[tuple[str, ExportTraceServiceRequest | ExportLogsServiceRequest]]:
    chance = random.Random(5)

    def trace(*spans: dict[str, Any], **given: Any) -> ExportTraceServiceRequest:
        request = ExportTraceServiceRequest()
        scope = request.resource_spans.add().scope_spans.add()
        trace_id = chance.randbytes(16)
        for number, said in enumerate(spans or ({},), 1):
            usual = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
            span = Span(trace_id=trace_id, span_id=number.to_bytes(8), name="chat", start_time_unix_nano=START)
            span.end_time_unix_nano = START + number
            for key, value in (usual | given | said).items():
                if isinstance(getattr(span, key, None), int | str | bytes):
                    setattr(span, key, value)
                else:
                    span.attributes.append(KeyValue(key=key, value=_any(value)))
            scope.spans.append(span)
        return request

    message = [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
    yield "a huge name", trace(name="n" * 1_000_000)
    yield "an odd name", trace(name="\x00\u202e\ufeff\U0010ffff\r\n<script>\x1b[31m")
    for text in (
        "s" * 10_000,
        "\x00",
        "\x01\x02\x1b[0m",
        "\n",
        "../..",
        "/",
        "%2F",
        " ",
        "\u202e",
        "\ue02f",
        "é" * 900,
        ".",
    ):
        yield f"session {text[:10]!r}", trace(**{"session.id": text, "gen_ai.conversation.id": text})
    for name in ("input_tokens", "output_tokens", "cost", "cache_read.input_tokens"):
        for number in (-1, 2**63 - 1, -(2**63), 0, float("nan"), float("inf"), -1e308, "many", True):
            yield f"{name} {number}", trace(**{f"gen_ai.usage.{name}": number, "gen_ai.conversation.id": "counts"})
    nested: Any = "core"
    for _ in range(15):  # as deep as protobuf goes
        nested = {"k": [nested]}
    yield "nested kvlists", trace(**{"gen_ai.input.messages": nested, "metadata": nested})
    text = "[" * 1000 + "]" * 1000
    yield "nested JSON", trace(**{"gen_ai.input.messages": text, "gen_ai.tool.definitions": text, "input.value": text})
    for odd in ('"\\ud800"', '[{"role": "user", "content": "\\udfff"}]', '[{"role": 1e999}]', "[1e400, -0, NaN]",
                '{"role": null, "parts": [null, 1, [], {"type": {}}]}', '[{"\\ud800": 9' + "9" * 400 + "}]"):  # fmt: skip
        said = (
            "gen_ai.input.messages",
            "gen_ai.output.messages",
            "gen_ai.tool.definitions",
            "gen_ai.system_instructions",
        )
        yield f"messages {odd[:30]}", trace(**dict.fromkeys(said, odd))
        yield f"values {odd[:30]}", trace(**{"input.value": odd, "output.value": odd, "openinference.span.kind": "LLM"})
    circle = [{"parent_span_id": number.to_bytes(8)} for number in (2, 3, 1, 4)]  # the last is its own parent
    yield "parents in circles", trace(*circle, **{"gen_ai.input.messages": json.dumps(message)})
    chain = [{"parent_span_id": number.to_bytes(8)} for number in range(3_000)]
    yield "3,000 spans one in the other", trace(*chain)
    for start, end in ((0, 0), (2**64 - 1, 0), (0, 2**64 - 1), (2**63, 2**63 - 1), (START, START - 10**15)):
        yield f"times {start} {end}", trace(start_time_unix_nano=start, end_time_unix_nano=end)
    many = trace()
    for number in range(5_000):
        event = many.resource_spans[0].scope_spans[0].spans[0].events.add(name="gen_ai.user.message")
        event.attributes.append(KeyValue(key="content", value=AnyValue(string_value=f"word {number}")))
    yield "5,000 events", many
    wide = {f"llm.input_messages.{number}.message.content": "x" for number in (*range(2_000), 10**9, 2**64, -1)}
    yield "numbered messages", trace(**wide, **{"openinference.span.kind": "LLM"})
    yield "3,000 attributes of one name", _repeated(trace())
    record = ExportLogsServiceRequest()
    log = record.resource_logs.add().scope_logs.add().log_records.add(trace_id=chance.randbytes(16))
    log.time_unix_nano, log.severity_number, log.event_name = 2**64 - 1, 24, "gen_ai.evaluation.result"
    for key, value in (("gen_ai.evaluation.score.value", float("nan")), ("gen_ai.evaluation.name", "\x00" * 5000)):
        log.attributes.append(KeyValue(key=key, value=_any(value)))
    yield "a score that is no number", record


def _repeated(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.extend(KeyValue(key="session.id", value=_any(number)) for number in range(3_000))
    return request


def _any(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
    found = AnyValue()
    if isinstance(value, list):
        found.array_value.values.extend(map(_any, value))
    else:
        found.kvlist_value.values.extend(KeyValue(key=key, value=_any(each)) for key, each in value.items())
    return found

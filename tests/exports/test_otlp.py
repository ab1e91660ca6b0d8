"""OTLP: spans that a collector takes, with ids and times that come out the same each time."""

from __future__ import annotations

import json
import re
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sample_sessions import NOW, SESSION, TRACE, conversation, event, fill

import dashcam
from dashcam.contracts.identity import otel_trace_id, root_span_id
from dashcam.errors import DashcamError, SettingsError
from dashcam.exports import otlp, post
from dashcam.record.projector import project_all
from dashcam.store.base import Batch
from dashcam.store.sqlite.store import SqliteReader, SqliteStore


def spans(store: SqliteReader, *sessions: str) -> list[dict[str, Any]]:
    document = json.loads(b"".join(otlp.write(store, sessions or (SESSION,))))
    assert list(document) == ["resourceSpans"]
    return [
        span for resource in document["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]
    ]


def attributes(of: dict[str, Any]) -> dict[str, Any]:
    """The attributes by name; each name once, each value of exactly one type."""
    found = {each["key"]: each["value"] for each in of["attributes"]}
    assert len(found) == len(of["attributes"])
    return {key: next(iter(value.values())) for key, value in found.items() if len(value) == 1}


def check(found: list[dict[str, Any]]) -> None:
    assert len({(span["traceId"], span["spanId"]) for span in found}) == len(found)
    for span in found:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert 0 <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert attributes(span)["session.id"]
        for each in span["events"]:
            assert isinstance(each["timeUnixNano"], str)
            attributes(each)


def test_spans_model_calls_and_events_stand_where_they_happened(store: SqliteStore) -> None:
    fill(store)
    found = spans(store)
    check(found)
    root, turn, tool, *calls = found
    assert (root["name"], root["spanId"], "parentSpanId" in root) == ("trace", root_span_id(TRACE), False)
    assert [each["name"] for each in root["events"]] == ["request_received", "permission.evaluate"]
    assert (turn["name"], turn["parentSpanId"], turn["kind"]) == ("session.turn", root["spanId"], 1)
    assert turn["status"] == {"code": 2, "message": "m"}
    assert attributes(turn)["error.type"] == "E"
    assert attributes(turn)["turn_index"] == "1"
    assert [each["name"] for each in turn["events"]] == ["tool_call_failed"]
    assert int(turn["endTimeUnixNano"]) - int(turn["startTimeUnixNano"]) == 50_000_000
    assert (tool["name"], tool["parentSpanId"]) == ("tool.call", turn["spanId"])
    assert attributes(tool)["dashcam.unfinished"] is True
    assert tool["endTimeUnixNano"] == str((NOW + 80) * 1_000_000)
    assert [call["name"] for call in calls] == ["chat gpt-5"] * 3
    assert {call["parentSpanId"] for call in calls} == {turn["spanId"]}


def test_the_reader_of_the_standard_takes_it(store: SqliteStore) -> None:
    """Its JSON has ids in base64 where OTLP has them in hex; all else is the same."""
    fill(store)
    written = b"".join(otlp.write(store, [SESSION])).decode()
    ids = re.compile(r'"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"')
    in_base64 = ids.sub(lambda id: f'"{id[1]}":"{b64encode(bytes.fromhex(id[2])).decode()}"', written)
    request = json_format.Parse(in_base64, ExportTraceServiceRequest())
    assert len(request.resource_spans[0].scope_spans[0].spans) == len(spans(store))


def test_a_call_is_told_in_the_words_of_the_conventions(store: SqliteStore) -> None:
    fill(store)
    call = spans(store)[-1]
    told = attributes(call)
    assert call["kind"] == 3
    assert told["gen_ai.operation.name"] == "chat"
    assert (told["gen_ai.provider.name"], told["gen_ai.request.model"]) == ("openai", "gpt-5")
    assert told["gen_ai.request.temperature"] == 0.5
    assert told["gen_ai.usage.input_tokens"] == "15"  # with what the cache served
    assert told["gen_ai.usage.output_tokens"] == "5"  # with reasoning
    assert told["gen_ai.usage.cache_read.input_tokens"] == "5"
    assert "gen_ai.usage.cache_creation.input_tokens" not in told  # unknown is not 0
    assert int(call["endTimeUnixNano"]) - int(call["startTimeUnixNano"]) == 3_500_000


def test_the_spans_of_a_recorded_session_say_what_the_contract_names(opened: Callable[[], SqliteReader]) -> None:
    usage = {"input": 900, "output": 12, "reasoning": 3, "cache_read": 50, "cache_write": 7}
    rule: dict[str, Any] = {"permission": "refund", "pattern": "1*", "action": "allow", "source": "project"}
    with dashcam.record_session("chat", agent="shop", model="openai:gpt-5", permissions=[rule]) as chat:
        chat.user("Refund it")
        chat.tool_result(chat.tool_call("find", {"id": 1}, tool_call_id="c1"), {"truncated": True})
        chat.tool_result(chat.tool_call("refund", {"id": 1}, tool_call_id="c2", permission=rule), error="too late")
        chat.assistant("I can't.", usage=usage, stop_reason="end_turn")
        chat.compaction("It was about a refund", summarized=4, usage={"input": 30, "output": 5})
    found: dict[str, list[dict[str, Any]]] = {}
    for span in spans(opened(), "chat"):
        found.setdefault(span["name"], []).append(attributes(span))
    (run,), (turn,), (compaction,), (permission,) = (
        found[name] for name in ("session.run", "session.turn", "compaction.run", "permission.evaluate")
    )
    assert {"session_id": "chat", "agent": "shop", "model_id": "gpt-5", "provider_id": "openai"}.items() <= run.items()
    counts = {f"tokens.{name}": str(count) for name, count in usage.items()}
    assert {"turn_index": "1", "stop_reason": "end_turn", "tokens": "972", **counts}.items() <= turn.items()
    good, bad = found["tool.call"]
    assert {"tool_id": "find", "tool_call_id": "c1", "truncated": True}.items() <= good.items()
    assert {"tool_id": "refund", "tool_call_id": "c2", "truncated": False, "error": "too late"}.items() <= bad.items()
    assert "error" not in good
    assert all(timed["duration_ms"] > 0 for timed in (turn, good, bad))
    summed = {"session_id": "chat", "summarized_message_count": "4", "input_tokens": "30", "output_tokens": "5"}
    assert summed.items() <= compaction.items()
    decided = {"tool_id": "refund", "pattern": "1*", "action": "allow", "source": "project"}
    assert decided.items() <= permission.items()


@pytest.mark.parametrize("tokens", [{}, None, "many", {"input": -1}, [1]])
def test_tokens_that_nobody_counted_are_not_none(store: SqliteStore, tokens: object) -> None:
    told: dict[str, Any] = {"name": "session.turn", "span_id": "00f067aa0ba902b7", "tokens": tokens}
    store.append(
        Batch(events=[event(0, "span_ended", **told), event(1, "span_ended", name="tool.call", status="error")])
    )
    found = spans(store)
    check(found)
    assert not [name for span in found for name in attributes(span) if name.startswith("tokens.")]
    assert [attributes(span)["error"] for span in found if span["name"] == "tool.call"] == ["failed"]


def test_a_trace_id_of_any_kind_becomes_one_of_opentelemetry(store: SqliteStore) -> None:
    store.append(
        Batch(
            events=[
                event(0, "reply_ready", "s", "order 7/b"),
                event(1, "span_started", "s", "order 7/b", name="x", span_id="mine"),
            ]
        )
    )
    found = spans(store, "s")
    check(found)
    assert {span["traceId"] for span in found} == {otel_trace_id("order 7/b")}
    assert {attributes(span)["dashcam.trace_id"] for span in found} == {"order 7/b"}


def test_half_told_and_odd_spans_are_no_reason_to_fail(store: SqliteStore) -> None:
    odd = [
        event(0, "span_ended", name="late", span_id="00f067aa0ba902b7", started_at="2027-01-15T07:59:59Z", status="ok"),
        event(1, "span_ended", name=3, span_id=["x"], started_at=[], status="error", error="text"),
        event(2, "span_started", name="again", span_id="b7ad6b7169203331"),
        event(3, "span_started", name="again", span_id="b7ad6b7169203331"),
        event(
            4, "note", span_id="ffffffffffffffff", big=2**80, deep={"a": [1]}, flag=True, none=None, texts=["a", "b"]
        ),
        event(5, "span_ended", name="again", span_id="b7ad6b7169203331"),
        event(6, "model_call", model="m", latency_ms=1e299, span_id="not hex", error="boom", settings={"top_p": "x"}),
    ]
    store.append(Batch(events=odd))
    project_all(store)
    found = spans(store)
    check(found)
    assert [span["name"] for span in found] == ["span", "late", "again", "chat m"]
    assert int(found[1]["endTimeUnixNano"]) - int(found[1]["startTimeUnixNano"]) == 1_000_000_000
    note = attributes(found[0]["events"][0])
    assert note["dashcam.span_id"] == "ffffffffffffffff"
    assert (note["big"], note["deep"], note["flag"]) == (str(2**80), '{"a":[1]}', True)
    assert found[3]["status"]["code"] == 2


def test_each_session_is_a_resource_named_by_its_agent(store: SqliteStore) -> None:
    fill(store)
    store.append(Batch(events=[event(50, "reply_ready", "only-events", "t")], chat=conversation("silent")))
    document = json.loads(b"".join(otlp.write(store, [SESSION, "only-events", "silent"])))
    names = [attributes(resource["resource"])["service.name"] for resource in document["resourceSpans"]]
    assert names == ["helper", "dashcam", "helper"]
    assert document["resourceSpans"][2]["scopeSpans"][0]["spans"] == []


class Collector(ThreadingHTTPServer):
    """An OTLP/HTTP endpoint that answers as it is told."""

    def __init__(self, status: int, answer: bytes) -> None:
        self.status, self.answer = status, answer
        self.bodies: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/json"
        self.server.bodies.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def collector(status: int = 200, answer: bytes = b"{}") -> Iterator[tuple[Collector, str]]:
    with Collector(status, answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_spans_are_sent_in_requests_of_bounded_size(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store)
    fill(store, "chat-43", "4bf92f3577b34da6a3ce929d0e0e4736", 100)
    monkeypatch.setattr(post, "SPANS", 4)
    with collector() as (server, url):
        assert post.send(store, [SESSION, "chat-43"], url) == 12
    assert {path for path, _ in server.bodies} == {"/v1/traces"}
    sent = [body["resourceSpans"][0]["scopeSpans"][0]["spans"] for _, body in server.bodies]
    assert [len(each) for each in sent] == [4, 2, 4, 2]
    assert [span for each in sent for span in each] == spans(store, SESSION, "chat-43")


@pytest.mark.parametrize(
    ("status", "answer", "told"),
    [
        (503, b"no \x1b[31mroom", "answered 503"),
        (307, b"", "answered 307"),
        (200, b'{"partialSuccess":{"rejectedSpans":"2"}}', "rejected 2"),
    ],
)
def test_an_endpoint_that_does_not_take_them_is_told(store: SqliteStore, status: int, answer: bytes, told: str) -> None:
    fill(store)
    with collector(status, answer) as (_, url), pytest.raises(DashcamError, match=told):
        post.send(store, [SESSION], url)


def test_an_endpoint_that_is_not_there_is_told(store: SqliteStore) -> None:
    fill(store)
    with pytest.raises(DashcamError, match="can't be reached"):
        post.send(store, [SESSION], "http://127.0.0.1:9/v1/traces")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "localhost:4318", "ftp://x/", "http://", "http://me:secret@host/"]
)
def test_only_http_addresses_without_a_password_are_sent_to(url: str) -> None:
    with pytest.raises(SettingsError) as raised:
        post.endpoint_of(url)
    assert "secret" not in str(raised.value)

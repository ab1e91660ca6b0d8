"""Requests into spans and log records, and back: to the letter, without secrets, whatever was sent."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from dashcam.contracts.content import context_digest, digest_of
from dashcam.dialects.otlp import decode, wire
from dashcam.errors import UnreadableInput
from dashcam.sdk.redaction import Redaction, Redactor
from dashcam.store.base import Batch, Context
from dashcam.store.sqlite.store import SqliteStore

SAMPLES = Path(__file__).parents[1] / "data" / "otlp"
TRACE, SPAN = bytes(range(1, 17)), bytes(range(1, 9))


class Memory:
    """The contents of what was received, as a store would give them."""

    def __init__(self, received: wire.Received) -> None:
        self._contents = {digest_of(body): body for body in received.contents}
        self._contexts = {context_digest(digests): list(digests) for digests in received.contexts}

    def bodies(self, digests: Iterable[bytes]) -> dict[bytes, bytes]:
        return {digest: self._contents[digest] for digest in digests if digest in self._contents}

    def context(self, digest: bytes) -> list[bytes]:
        return self._contexts[digest]


def sent(signal: str) -> list[Any]:
    """Every body of one signal among the samples, with its form."""
    samples = []
    for path in sorted(SAMPLES.glob(f"*/*_{signal}.headers.json")):
        headers = json.loads(path.read_text())["headers"]
        body = path.with_name(path.name.replace(".headers.json", ".body")).read_bytes()
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        form = "json" if "json" in headers["content-type"] else "protobuf"
        samples.append(pytest.param(body, form, id=f"{path.parent.name}-{path.name[:3]}"))
    return samples


def told(request: ExportTraceServiceRequest) -> list[ResourceSpans]:
    """The blocks of a request with spans, one for each scope."""
    blocks = []
    for block in request.resource_spans:
        for scope in block.scope_spans:
            alone = ResourceSpans()
            alone.CopyFrom(block)
            del alone.scope_spans[:]
            alone.scope_spans.append(scope)
            blocks += [alone] if scope.spans else []
    return blocks


def rebuilt(received: wire.Received, fetch: decode.Fetch) -> list[ResourceSpans]:
    blocks = []
    for scope, spans in groupby(received.spans, key=lambda span: span.scope):
        block = ResourceSpans.FromString(scope)
        block.scope_spans[0].spans.extend(decode.span_message(span, fetch) for span in spans)
        blocks.append(block)
    return blocks


def in_request(*spans: SpanMessage) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    block.resource.attributes.add(key="service.name").value.string_value = "tests"
    scope = block.scope_spans.add()
    scope.scope.name = "tests"
    scope.spans.extend(spans)
    return request


def log_request(*records: LogMessage, **resource: str) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    block = request.resource_logs.add()
    for key, value in resource.items():
        block.resource.attributes.add(key=key).value.string_value = value
    block.scope_logs.add().log_records.extend(records)
    return request


def log(**attributes: str) -> LogMessage:
    record = LogMessage(time_unix_nano=1_700_000_000_000_000_123)
    for key, value in attributes.items():
        record.attributes.add(key=key.replace("__", ".")).value.string_value = value
    return record


def span(**more: Any) -> SpanMessage:
    return SpanMessage(**{"trace_id": TRACE, "span_id": SPAN, "name": "chat", **more})


def _listed(items: list[AnyValue]) -> AnyValue:
    value = AnyValue()
    value.array_value.SetInParent()
    value.array_value.values.extend(items)
    return value


def _named(pairs: list[tuple[str, AnyValue]]) -> AnyValue:
    value = AnyValue()
    value.kvlist_value.SetInParent()
    value.kvlist_value.values.extend(KeyValue(key=key, value=item) for key, item in pairs)
    return value


# Real requests


@pytest.mark.parametrize(("body", "form"), sent("traces"))
def test_every_span_of_a_real_sender_comes_back_to_the_letter(body: bytes, form: wire.Form, store: SqliteStore) -> None:
    received = wire.receive_traces(wire.parse_traces(body, form), None)
    store.append(Batch(contents=received.contents, contexts=list(map(Context, received.contexts))))
    assert rebuilt(received, store) == told(wire.parse_traces(body, form))
    assert received.spans and not received.orphans and not received.rejected


@pytest.mark.parametrize(("body", "form"), sent("logs"))
def test_every_log_record_of_a_real_sender_comes_back_to_the_letter(body: bytes, form: wire.Form) -> None:
    received = wire.receive_logs(wire.parse_logs(body, form), None)
    request = wire.parse_logs(body, form)
    records = [record for block in request.resource_logs for scope in block.scope_logs for record in scope.log_records]
    assert [decode.log_message(each, Memory(received)) for each in received.logs] == records
    assert received.logs and not received.orphans


@pytest.mark.parametrize(("body", "form"), sent("metrics"))
def test_metrics_of_a_real_sender_are_counted(body: bytes, form: wire.Form) -> None:
    assert wire.count_metrics(wire.parse_metrics(body, form)) > 0


def test_nothing_of_a_real_sender_is_taken_for_a_secret() -> None:
    """Ids, hashes and the catalogs of tools stay, so that spans can be rebuilt exactly."""
    redactor = Redactor(Redaction())
    for sample in sent("traces"):
        plain, clean = (wire.receive_traces(wire.parse_traces(*sample.values), each) for each in (None, redactor))
        assert plain == clean
    for sample in sent("logs"):
        plain, clean = (wire.receive_logs(wire.parse_logs(*sample.values), each) for each in (None, redactor))
        assert plain == clean


def test_the_view_of_a_span_has_what_the_sender_said() -> None:
    message = span(parent_span_id=SPAN[::-1], start_time_unix_nano=5, end_time_unix_nano=9)
    message.status.MergeFromString(b"\x12\x0cno such city\x18\x02")
    nested = message.attributes.add(key="nested").value.kvlist_value
    nested.values.add(key="list").value.array_value.values.extend(
        [AnyValue(int_value=1), AnyValue(double_value=0.5), AnyValue(bool_value=False), AnyValue(bytes_value=b"\xff")]
    )
    nested.values.add(key="nothing")
    message.attributes.add(key="empty").value.string_value = ""
    message.events.add(name="exception", time_unix_nano=7).attributes.add(key="k").value.string_value = "v"
    received = wire.receive_traces(in_request(message), None)
    view = decode.span_view(received.spans[0], Memory(received))
    assert (view.trace_id, view.span_id, view.parent_span_id) == (TRACE.hex(), SPAN.hex(), SPAN[::-1].hex())
    assert (view.name, view.start_ns, view.end_ns, view.status, view.status_message) == (
        "chat", 5, 9, "error", "no such city",
    )  # fmt: skip
    assert view.attributes == {"nested": {"list": [1, 0.5, False, b"\xff"], "nothing": None}, "empty": ""}
    assert [(event.name, event.at_ns, event.attributes) for event in view.events] == [("exception", 7, {"k": "v"})]
    assert (view.scope, view.resource) == ("tests", {"service.name": "tests"})


# Any span

texts = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(["x" * 3000, '[{"a": 1}, {"b": 2}]' * 200])
values = st.recursive(
    st.one_of(
        st.builds(AnyValue),
        st.builds(AnyValue, string_value=texts),
        st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
        st.builds(AnyValue, double_value=st.floats(allow_nan=False)),
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, bytes_value=st.binary(max_size=20)),
    ),
    lambda inner: st.lists(inner, max_size=3).map(_listed) | st.lists(st.tuples(texts, inner), max_size=3).map(_named),
    max_leaves=6,
)
keys = texts | st.sampled_from(
    ["llm.input_messages.0.message.role", "llm.input_messages.1.message.content", "input.value"]
)
attributes = st.lists(st.builds(KeyValue, key=keys, value=values), max_size=5)
times = st.integers(0, 2**63 - 1)
unknown = st.sampled_from([b"", b"\xc2\x3e\x03abc"])  # a field 1000, which no version of ours knows
statuses = st.sampled_from(
    [None, b"", b"\x18\x01", b"\x18\x02", b"\x18\x07", b"\x12\x02hi\x18\x02", b"\x18\x02\xc2\x3e\x01a"]
)


@st.composite
def spans(draw: st.DrawFn) -> SpanMessage:
    message = SpanMessage(
        trace_id=draw(st.sampled_from([TRACE, TRACE[::-1]])),
        span_id=draw(st.binary(min_size=8, max_size=8).filter(any)),
        parent_span_id=draw(st.sampled_from([b"", SPAN, bytes(8), b"odd"])),
        name=draw(texts),
        kind=draw(st.integers(0, 9)),  # type: ignore[arg-type]
        flags=draw(st.integers(0, 2**32 - 1)),
        trace_state=draw(texts),
        start_time_unix_nano=draw(times),
        end_time_unix_nano=draw(times),
        attributes=draw(attributes),
        dropped_attributes_count=draw(st.integers(0, 3)),
    )
    for name, inner in draw(st.lists(st.tuples(texts, attributes), max_size=2)):
        message.events.add(name=name, time_unix_nano=draw(times), attributes=inner)
    for inner in draw(st.lists(attributes, max_size=1)):
        message.links.add(trace_id=TRACE, span_id=SPAN, attributes=inner)
    status = draw(statuses)
    if status is not None:
        message.status.SetInParent()
        message.status.MergeFromString(status)
    message.MergeFromString(draw(unknown))
    return message


@pytest.mark.slow
@given(st.lists(spans(), min_size=1, max_size=3))
def test_any_span_comes_back_to_the_letter(sent_spans: list[SpanMessage]) -> None:
    request = in_request(*sent_spans)
    before = told(request)
    received = wire.receive_traces(request, None)
    after = rebuilt(received, Memory(received))
    assert [block.SerializeToString() for block in after] == [block.SerializeToString() for block in before]
    for each in received.spans:
        decode.span_view(each, Memory(received))


@pytest.mark.slow
@given(attributes, values, texts)
def test_any_log_record_comes_back_to_the_letter(told_attributes: list[KeyValue], body: AnyValue, name: str) -> None:
    record = LogMessage(trace_id=TRACE, span_id=SPAN, event_name=name, body=body, attributes=told_attributes)
    received = wire.receive_logs(log_request(record), None)
    assert decode.log_message(received.logs[0], Memory(received)).SerializeToString() == record.SerializeToString()
    decode.log_view(received.logs[0], Memory(received))


@pytest.mark.parametrize("times", [(9, 5), (5, 0), (0, 0), (2**63 - 1, 2**63 - 1)])
def test_odd_times_are_accepted(times: tuple[int, int]) -> None:
    message = span(start_time_unix_nano=times[0], end_time_unix_nano=times[1], name="")
    received = wire.receive_traces(in_request(message), None)
    assert [(each.start_ns, each.end_ns, each.name) for each in received.spans] == [(*times, "")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"trace_id": b""},
        {"trace_id": bytes(16)},
        {"trace_id": b"short"},
        {"span_id": bytes(8)},
        {"span_id": b"123456789"},
        {"start_time_unix_nano": 2**63},
        {"end_time_unix_nano": 2**64 - 1},
    ],
)
def test_a_span_that_cant_be_joined_is_kept_whole_with_the_reason(wrong: dict[str, Any]) -> None:
    request = in_request(span(span_id=SPAN[::-1]), span(**wrong))
    expected = told(in_request(span(**wrong)))[0]
    received = wire.receive_traces(request, None)
    ((reason, operation, body),) = received.orphans
    assert ResourceSpans.FromString(body) == expected
    assert operation == "chat" and reason.startswith("a span")
    assert len(received.spans) == 1 and received.rejected == 0


def test_equal_scopes_are_told_in_equal_bytes_and_schemas_stay() -> None:
    request = in_request(span(), span(span_id=SPAN[::-1]))
    request.resource_spans[0].schema_url = "https://example.org/1"
    request.resource_spans[0].scope_spans[0].schema_url = "https://example.org/2"
    request.resource_spans[0].scope_spans.add().spans.append(span(span_id=b"12345678"))
    before = told(request)
    received = wire.receive_traces(request, None)
    assert rebuilt(received, Memory(received)) == before
    assert len({each.scope for each in received.spans}) == 2


# Log records


def test_a_log_record_without_a_trace_stands_with_its_session() -> None:
    requests = (
        log_request(log(session__id="s1")),
        log_request(log(session_id="s3", conversation__id="s2")),
        log_request(log(conversation__id=""), session_id="s4"),
    )
    logs = [each for request in requests for each in wire.receive_logs(request, None).logs]
    assert [each.trace_id for each in logs] == ["session:s1", "session:s2", "session:s4"]
    assert {(each.ts, each.span_id) for each in logs} == {(1_700_000_000_000_000, None)}


def test_a_log_record_with_neither_is_kept_whole() -> None:
    record = log(event__name="odd", session__id="x" * 5000)
    ((reason, operation, body),) = wire.receive_logs(log_request(record), None).orphans
    assert operation == "odd" and "session" in reason
    assert ResourceLogs.FromString(body).scope_logs[0].log_records[0] == record


def test_the_name_time_and_severity_of_a_log_record() -> None:
    source = log(event__name="codex.user_prompt")
    source.event_name, source.severity_number = "event otel/src/lib.rs:42", 9  # type: ignore[assignment]
    plain = LogMessage(event_name="gen_ai.choice", severity_text="hint", observed_time_unix_nano=5_000)
    for record in (source, plain):
        record.trace_id = TRACE
    logs = wire.receive_logs(log_request(source, plain), None).logs
    assert [(each.name, each.severity) for each in logs] == [("codex.user_prompt", "INFO"), ("gen_ai.choice", "hint")]
    assert [each.ts for each in logs] == [1_700_000_000_000_000, 5]


# Anything else

FORMS: list[wire.Form] = ["protobuf", "json"]


def receive_whatever(body: bytes, form: wire.Form) -> None:
    """Only UnreadableInput may come out; what is read can be rebuilt."""
    redactor = Redactor(Redaction())
    with suppress(UnreadableInput):
        received = wire.receive_traces(wire.parse_traces(body, form), redactor)
        for each in received.spans:
            decode.span_message(each, Memory(received))
            decode.span_view(each, Memory(received))
    with suppress(UnreadableInput):
        received = wire.receive_logs(wire.parse_logs(body, form), redactor)
        for record in received.logs:
            decode.log_view(record, Memory(received))
    with suppress(UnreadableInput):
        wire.count_metrics(wire.parse_metrics(body, form))


@given(st.binary(max_size=200), st.sampled_from(FORMS))
def test_random_bytes_are_refused_or_read(body: bytes, form: wire.Form) -> None:
    receive_whatever(body, form)


@pytest.mark.slow
@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
def test_damaged_bodies_are_refused_or_read(signal: Literal["traces", "logs", "metrics"]) -> None:
    chance = random.Random(7)
    for sample in sent(signal):
        body, form = sample.values
        if len(body) > 50_000:
            continue
        for _ in range(12):
            receive_whatever(body[: chance.randrange(len(body))], form)
            flipped = bytearray(body)
            for _ in range(chance.randrange(1, 4)):
                flipped[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
            receive_whatever(bytes(flipped), form)


def test_what_is_refused_is_refused_with_a_clear_message() -> None:
    with pytest.raises(UnreadableInput, match=r"no protobuf ExportTraceServiceRequest.*application/x-protobuf"):
        wire.parse_traces(b'{"resourceSpans": []}', "protobuf")
    with pytest.raises(UnreadableInput, match="not JSON"):
        wire.parse_traces(b"\x0a\x00", "json")

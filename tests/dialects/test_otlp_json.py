"""OTLP/JSON as senders write it, and as we do."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from dashcam.dialects.otlp import decode, wire
from dashcam.dialects.otlp.json_form import read_json, span_json, to_json
from dashcam.errors import UnreadableInput

TRACE, SPAN = bytes(range(1, 17)), bytes(range(0xA1, 0xA9))


def request_of(span: dict[str, Any]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def read(span: dict[str, Any]) -> Span:
    (message,) = wire.parse_traces(request_of(span), "json").resource_spans[0].scope_spans[0].spans
    assert isinstance(message, Span)
    return message


def value(**told: Any) -> Any:
    (attribute,) = read({"attributes": [{"key": "k", "value": told}]}).attributes
    return decode.value_of(attribute.value)


@pytest.mark.parametrize(
    "told", [TRACE.hex(), TRACE.hex().upper(), b64encode(TRACE).decode(), b64encode(TRACE).decode().rstrip("=")]
)
def test_an_id_is_read_in_hex_of_either_case_and_in_base64(told: str) -> None:
    assert read({"traceId": told}).trace_id == TRACE


@pytest.mark.parametrize("told", [SPAN.hex(), SPAN.hex().upper(), b64encode(SPAN).decode()])
def test_a_span_id_is_read_likewise(told: str) -> None:
    assert read({"spanId": told, "parentSpanId": ""}) == Span(span_id=SPAN)


@pytest.mark.parametrize("told", [1_700_000_000_000_000_001, "1700000000000000001"])
def test_a_time_is_read_as_number_and_as_text(told: object) -> None:
    assert read({"startTimeUnixNano": told}).start_time_unix_nano == 1_700_000_000_000_000_001


def test_names_are_read_in_both_cases_and_enums_in_both_forms() -> None:
    camel = {"kind": 3, "status": {"code": 2}, "droppedAttributesCount": 1, "endTimeUnixNano": "5"}
    snake = {"kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_ERROR"}, "dropped_attributes_count": 1.0}
    assert read(camel) == read(snake | {"end_time_unix_nano": 5})


def test_unknown_and_null_members_are_ignored() -> None:
    assert read({"name": "n", "status": None, "attributes": None, "new": {"deep": [1]}}) == Span(name="n")


def test_values_of_every_kind() -> None:
    assert value(stringValue="") == ""
    assert (value(intValue=5), value(intValue="-5"), value(intValue=-(2**63))) == (5, -5, -(2**63))
    assert (value(doubleValue=1), value(doubleValue="-Infinity"), value(boolValue=False)) == (1.0, -math.inf, False)
    assert math.isnan(value(doubleValue="NaN"))
    assert value(bytesValue="-_8=") == value(bytesValue="+/8") == b"\xfb\xff"
    assert value(arrayValue={"values": [{"intValue": 1}, {}]}) == [1, None]
    assert value(kvlistValue={"values": [{"key": "a", "value": {"stringValue": "b"}}]}) == {"a": "b"}
    assert value(arrayValue={}) == [] and value() is None


def test_a_lone_surrogate_is_replaced() -> None:
    assert value(stringValue="a\ud800b\U0001f600") == "a?b\U0001f600"
    assert read({"name": "\udfff"}).name == "?"


def test_numbers_that_json_has_no_word_for_are_read() -> None:
    body = request_of({"attributes": [{"key": "k", "value": {"doubleValue": math.nan}}]})
    assert b"NaN" in body
    (attribute,) = wire.parse_traces(body, "json").resource_spans[0].scope_spans[0].spans[0].attributes
    assert math.isnan(attribute.value.double_value)


AT = r"resourceSpans\[0\]\.scopeSpans\[0\]\.spans\[0\]\."


@pytest.mark.parametrize(
    ("span", "where"),
    [
        ({"startTimeUnixNano": "soon"}, "startTimeUnixNano is a text"),
        ({"startTimeUnixNano": -1}, "startTimeUnixNano is out of range"),
        ({"startTimeUnixNano": 2**64}, "startTimeUnixNano is out of range"),
        ({"startTimeUnixNano": 1.5}, "startTimeUnixNano is a number, not a whole"),
        ({"startTimeUnixNano": True}, "startTimeUnixNano is true or false"),
        ({"startTimeUnixNano": "9" * 5000}, "startTimeUnixNano is a text"),
        ({"traceId": "no id!"}, "traceId is a text, not 32 hex digits"),
        ({"traceId": 5}, "traceId is a number"),
        ({"name": 5}, "name is a number, not a text"),
        ({"kind": "SPAN_KIND_ODD"}, "kind is a text"),
        ({"kind": 2**40}, "kind is out of range"),
        ({"status": []}, "status is a list, not an object"),
        ({"attributes": {"a": 1}}, "attributes is an object, not a list"),
        ({"attributes": [None]}, r"attributes\[0\] is null"),
        ({"attributes": [{}, {"value": {"intValue": 2**63}}]}, r"attributes\[1\]\.value\.intValue is out of range"),
        ({"attributes": [{"value": {"boolValue": 1}}]}, r"attributes\[0\]\.value\.boolValue is a number"),
        ({"attributes": [{"value": {"doubleValue": "x"}}]}, r"attributes\[0\]\.value\.doubleValue is a text"),
        ({"attributes": [{"value": {"doubleValue": 10**400}}]}, r"attributes\[0\]\.value\.doubleValue"),
        ({"attributes": [{"value": {"bytesValue": "\u20ac"}}]}, r"attributes\[0\]\.value\.bytesValue is a text"),
    ],
)
def test_a_wrong_shape_is_refused_with_its_place(span: dict[str, Any], where: str) -> None:
    with pytest.raises(UnreadableInput, match=f"^{AT}{where}"):
        read(span)


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b"null", b"{", b'"\xff"', b"[" * 100_000, b'{"a":' * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableInput, match=r"^The body is"):
        wire.parse_traces(body, "json")


def test_what_is_nested_too_deep_is_refused_and_what_is_read_can_be_stored() -> None:
    def nested(levels: int) -> dict[str, Any]:
        told: dict[str, Any] = {"intValue": 1}
        for _ in range(levels):
            told = {"kvlistValue": {"values": [{"key": "k", "value": told}]}}
        return {"traceId": TRACE.hex(), "spanId": SPAN.hex(), "attributes": [{"key": "k", "value": told}]}

    with pytest.raises(UnreadableInput, match="is nested too deep"):
        read(nested(40))
    deepest = next(levels for levels in range(40, 0, -1) if _is_read(nested(levels)))
    assert deepest > 20
    assert Span.FromString(read(nested(deepest)).SerializeToString()) == read(nested(deepest))


def _is_read(span: dict[str, Any]) -> bool:
    try:
        read(span)
    except UnreadableInput:
        return False
    return True


# There and back


def _array(items: list[AnyValue]) -> AnyValue:
    made = AnyValue()
    made.array_value.SetInParent()
    made.array_value.values.extend(items)
    return made


def _kvlist(items: dict[str, AnyValue]) -> AnyValue:
    made = AnyValue()
    made.kvlist_value.SetInParent()
    made.kvlist_value.values.extend(KeyValue(key=key, value=item) for key, item in items.items())
    return made


texts = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.recursive(
    st.one_of(
        st.builds(AnyValue),
        st.builds(AnyValue, string_value=texts),
        st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
        st.builds(AnyValue, double_value=st.floats(allow_nan=False) | st.just(math.nan)),  # JSON has one NaN of many
        st.builds(AnyValue, bool_value=st.booleans()),
        st.builds(AnyValue, bytes_value=st.binary(max_size=9)),
    ),
    lambda inner: st.lists(inner, max_size=3).map(_array) | st.dictionaries(texts, inner, max_size=3).map(_kvlist),
    max_leaves=6,
)
attributes = st.lists(st.builds(KeyValue, key=texts, value=values), max_size=4)
numbers = st.integers(0, 2**64 - 1)


@st.composite
def spans(draw: st.DrawFn) -> Span:
    span = Span(
        trace_id=draw(st.sampled_from([b"", TRACE, bytes(16)])),
        span_id=draw(st.binary(min_size=8, max_size=8)),
        parent_span_id=draw(st.sampled_from([b"", SPAN])),
        name=draw(texts),
        kind=draw(st.integers(-(2**31), 2**31 - 1)),  # type: ignore[arg-type]
        flags=draw(st.integers(0, 2**32 - 1)),
        start_time_unix_nano=draw(numbers),
        end_time_unix_nano=draw(numbers),
        attributes=draw(attributes),
    )
    for inner in draw(st.lists(attributes, max_size=2)):
        span.events.add(name=draw(texts), time_unix_nano=draw(numbers), attributes=inner)
        span.links.add(trace_id=TRACE, span_id=SPAN, attributes=inner)
    if draw(st.booleans()):
        span.status.SetInParent()
        span.status.message = draw(texts)
    return span


@pytest.mark.slow
@given(spans())
def test_a_span_in_json_reads_back_as_the_same_span(span: Span) -> None:
    told = msgspec.json.encode(span_json(span))
    assert read_json(told, Span).SerializeToString() == span.SerializeToString()


def test_a_span_in_json_is_as_the_protocol_has_it() -> None:
    span = Span(trace_id=TRACE, span_id=SPAN, start_time_unix_nano=5, kind=3)  # type: ignore[arg-type]
    span.attributes.add(key="n").value.int_value = 7
    assert span_json(span) == {
        "traceId": TRACE.hex(),
        "spanId": SPAN.hex(),
        "kind": 3,
        "startTimeUnixNano": "5",
        "attributes": [{"key": "n", "value": {"intValue": "7"}}],
    }


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "resourceSpans",
                    "scopeSpans",
                    "spans",
                    "traceId",
                    "spanId",
                    "name",
                    "attributes",
                    "key",
                    "value",
                    "stringValue",
                    "intValue",
                    "arrayValue",
                    "values",
                    "kvlistValue",
                    "status",
                    "code",
                    "events",
                    "kind",
                    "startTimeUnixNano",
                    "resource",
                    "resourceLogs",
                    "scopeLogs",
                    "logRecords",
                    "body",
                    "resourceMetrics",
                    "scopeMetrics",
                    "metrics",
                    "sum",
                    "dataPoints",
                    "bucketCounts",
                    "exemplars",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(anything)
def test_any_json_is_read_or_refused(told: Any) -> None:
    body = json.dumps(told).encode()
    kinds: list[Any] = [ExportTraceServiceRequest, ExportLogsServiceRequest, ExportMetricsServiceRequest, Span]
    for kind in kinds:
        try:
            message = read_json(body, kind)
        except UnreadableInput:
            continue
        assert read_json(msgspec.json.encode(to_json(message)), kind).SerializeToString() == message.SerializeToString()

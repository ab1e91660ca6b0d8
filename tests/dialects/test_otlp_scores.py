"""Scores: what Langfuse's SDKs post, as a log record and back."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogMessage
from otlp_samples import SAMPLES

from dashcam.contracts.score import Score
from dashcam.contracts.span import LogRecord
from dashcam.dialects.otlp.reading import LogView
from dashcam.dialects.otlp.scores import EVENT, score_of, score_records
from dashcam.errors import UnreadableInput

TRACE, SPAN = "12c7b006b3820bea133f9f7a2f91ebc1", "54d18810d16d0fd0"
NOW = 1_800_000_000_000_000_000


def post(**fields: Any) -> LogRecord:
    (record,) = score_records(json.dumps({"name": "quality", "value": 1, "traceId": TRACE, **fields}).encode(), NOW)
    return record


def value_of(value: AnyValue) -> Any:
    return getattr(value, str(value.WhichOneof("value")))


def view_of(record: LogRecord) -> LogView:
    message = LogMessage.FromString(record.body)
    return LogView(
        trace_id=record.trace_id,
        span_id=record.span_id,
        at_ns=message.time_unix_nano,
        name=message.event_name,
        attributes={pair.key: value_of(pair.value) for pair in message.attributes},
    )


def score_in(record: LogRecord) -> Score:
    score = score_of(view_of(record))
    assert score is not None
    return score


def test_the_captured_score_comes_back() -> None:
    body = (SAMPLES / "langfuse" / "001-api_public_scores.body").read_bytes()
    (record,) = score_records(body)
    assert (record.trace_id, record.span_id, record.name) == (TRACE, SPAN, EVENT)
    message = LogMessage.FromString(record.body)
    assert (message.trace_id.hex(), message.span_id.hex()) == (TRACE, SPAN)
    assert score_in(record) == Score(
        score_id="53e68cfdc018b313",
        session_id=f"trace:{TRACE}",
        trace_id=TRACE,
        span_id=SPAN,
        name="quality",
        value=0.9,
        source="langfuse",
        ts=1_794_726_950_575_400,
    )


def test_older_sdks_send_one_object() -> None:
    score = score_in(post(id="s1", value=0.25, comment="so so", timestamp="2026-11-15T07:15:50Z"))
    assert (score.score_id, score.value, score.label, score.comment) == ("s1", 0.25, None, "so so")
    assert score.ts == 1_794_726_950_000_000


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (3, "NUMERIC", (3.0, None)),
        ("good", "CATEGORICAL", (None, "good")),
        (1, "BOOLEAN", (1.0, None)),
        (False, "BOOLEAN", (0.0, None)),
    ],
)
def test_a_value_is_a_number_or_a_label(value: Any, kind: str, expected: tuple[float | None, str | None]) -> None:
    record = post(value=value, dataType=kind)
    score = score_in(record)
    assert (score.value, score.label) == expected
    assert view_of(record).attributes["langfuse.score.dataType"] == kind


def test_what_we_have_no_name_for_is_kept() -> None:
    record = post(metadata={"who": ["me", 1.50]}, environment="prod", configId=None, draft=True, weight=2)
    rest = {key: value for key, value in view_of(record).attributes.items() if key.startswith("langfuse.")}
    assert rest == {
        "langfuse.score.traceId": TRACE,
        "langfuse.score.metadata": '{"who": ["me", 1.5]}',
        "langfuse.score.environment": "prod",
        "langfuse.score.draft": True,
        "langfuse.score.weight": "2",
    }


def test_a_score_of_a_session_stands_in_the_trace_of_that_session() -> None:
    record = post(traceId=None, sessionId="chat-42")
    assert (record.trace_id, record.span_id) == ("session:chat-42", None)
    assert score_in(record).session_id == "chat-42"
    assert LogMessage.FromString(record.body).trace_id == b""


def test_a_trace_id_that_is_any_text_stands_for_a_session() -> None:
    assert post(traceId="my-trace").trace_id == "session:my-trace"
    assert post(traceId="my-trace", sessionId="chat-42").trace_id == "session:chat-42"
    assert post(traceId="0" * 32, sessionId="chat-42").trace_id == "session:chat-42"
    assert score_in(post(traceId="my-trace")).session_id == "my-trace"


def test_a_session_told_beside_the_trace_is_the_session() -> None:
    record = post(sessionId="chat-42", observationId="no span id")
    assert (record.trace_id, record.span_id, score_in(record).session_id) == (TRACE, None, "chat-42")


def test_a_score_without_id_and_time_gets_the_same_id_again_and_the_time_of_receipt() -> None:
    first, again, other = post(), post(), post(value=2)
    assert first == again
    assert score_in(first).score_id == score_in(again).score_id != score_in(other).score_id
    assert score_in(first).ts == NOW // 1000


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no score"),
        (b"{", "no score"),
        (b"\xff", "no score"),
        (b"[" * 100_000, "no score"),
        (b"17", "Score 1 can't be read"),
        (b"[null]", "Score 1 can't be read"),
        (b'{"value": 1, "traceId": "a"}', "missing required field `name`"),
        (b'{"name": "q", "traceId": "a"}', "missing required field `value`"),
        (b'{"name": "q", "value": null, "traceId": "a"}', "can't be read"),
        (b'{"name": "q", "value": 1' + b"0" * 400 + b', "traceId": "a"}', "can't be read"),
        (b'{"name": "q", "value": 1, "datasetRunId": "r"}', "neither traceId nor sessionId"),
        (b'{"name": "q", "value": 1, "traceId": "a", "timestamp": "yesterday"}', "no time since 1970"),
        (b'{"name": "q", "value": 1, "traceId": "a", "timestamp": "1969-12-31T23:59:59Z"}', "no time since 1970"),
        (b'{"name": "q", "value": 1, "traceId": "a", "timestamp": "9999-01-01T00:00:00Z"}', "no time since 1970"),
        (b'[{"name": "q", "value": 1, "traceId": "a"}, {"name": 3}]', "Score 2 can't be read"),
    ],
)
def test_what_is_no_score_is_refused_with_the_reason(body: bytes, message: str) -> None:
    with pytest.raises(UnreadableInput, match=message):
        score_records(body)


def test_a_score_of_any_opentelemetry_sender_is_read() -> None:
    told = {
        "gen_ai.evaluation.name": "Relevance",
        "gen_ai.evaluation.score.value": 4,
        "gen_ai.evaluation.score.label": "relevant",
        "gen_ai.evaluation.explanation": "on the point",
        "gen_ai.conversation.id": "chat-42",
    }
    log = LogView(trace_id=TRACE, span_id=SPAN, at_ns=NOW, name=EVENT, attributes=told)
    score = score_of(log)
    assert score is not None
    assert (score.name, score.value, score.label, score.comment) == ("Relevance", 4.0, "relevant", "on the point")
    assert (score.session_id, score.trace_id, score.span_id, score.source) == ("chat-42", TRACE, SPAN, "")
    assert score == score_of(log)
    later = msgspec.structs.replace(log, at_ns=NOW + 1_000)
    assert score.score_id != score_of(later).score_id  # type: ignore[union-attr]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, 10**400, "", [], {}])
def test_a_record_without_value_and_label_is_no_score(value: Any) -> None:
    log = LogView(trace_id=TRACE, name=EVENT, attributes={"gen_ai.evaluation.score.value": value})
    assert score_of(log) is None


def test_a_record_of_another_name_is_no_score() -> None:
    assert score_of(LogView(trace_id=TRACE, attributes={"gen_ai.evaluation.score.value": 1})) is None


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = ["id", "name", "value", "traceId", "observationId", "sessionId", "comment", "timestamp", "metadata", "dataType"]
bodies = st.dictionaries(st.sampled_from(names), anything) | anything


@given(bodies | st.lists(bodies, max_size=2))
@settings(deadline=None)
def test_every_body_is_scores_or_refused(body: Any) -> None:
    try:
        records = score_records(json.dumps(body).encode(), NOW)
    except UnreadableInput:
        return
    for record in records:
        score = score_of(view_of(record))
        assert score is None or msgspec.convert(msgspec.to_builtins(score), Score) == score


@given(st.dictionaries(st.sampled_from(["name", "score.value", "score.label", "explanation"]), anything | st.binary()))
@settings(deadline=None)
def test_reading_a_score_never_fails(told: dict[str, Any]) -> None:
    attributes = {f"gen_ai.evaluation.{key}": value for key, value in told.items()}
    score_of(LogView(trace_id="", name=EVENT, attributes=attributes))
    score = score_of(LogView(trace_id=TRACE, name=EVENT, attributes=attributes))
    assert score is None or score.session_id == f"trace:{TRACE}"

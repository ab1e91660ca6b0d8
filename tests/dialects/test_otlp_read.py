"""Whoever speaks, a span is read once, by all who know something of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_samples import logs, logs_of, senders, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.read import read, read_log
from dashcam.dialects.otlp.reading import EventView, LogView, Reading, SpanView

TRACE, SPAN = "1" * 32, "2" * 16
EVENTS = (
    *("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message"),
    *("gen_ai.choice", "gen_ai.client.inference.operation.details", "gen_ai.client.operation.exception"),
    *("gen_ai.content.prompt", "gen_ai.content.completion", "exception", "gen_ai.evaluation.result"),
)


def span(attributes: dict[str, Any], **fields: Any) -> SpanView:
    return SpanView(trace_id=TRACE, span_id=SPAN, attributes=attributes, **fields)


def known_keys() -> list[str]:
    """Every attribute that somebody really sent, and what the events of the conventions have."""
    views: list[Any] = [view for sender in senders() for view in (*spans(sender), *logs(sender))]
    events = [event for view in views if isinstance(view, SpanView) for event in view.events]
    keys = {key for each in (*views, *events) for key in each.attributes}
    return sorted(keys | {"gen_ai.prompt", "gen_ai.completion", "gen_ai.event.content", "input.value", "output.value"})


def known_values() -> list[Any]:
    views = [
        view for sender in ("strands-agents", "pydantic-ai-v5", "vercel-ai-sdk-6.0.326-json") for view in spans(sender)
    ]
    values = [value for view in views for value in view.attributes.values() if isinstance(value, str)]
    return sorted(set(values))[:300]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4)
VALUES = st.sampled_from(known_values()) | st.recursive(
    SCALARS | st.sampled_from(["[]", "{}", "null", '[{"role":"user"}]', "[1]", '{"messages":[[]]}', "chat", "execute_tool"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "type", "content", "parts", "id", "message", "text"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ATTRIBUTES = st.dictionaries(st.sampled_from(known_keys()), VALUES, max_size=8)


@given(ATTRIBUTES, ATTRIBUTES, st.sampled_from(EVENTS), VALUES, st.sampled_from(["unset", "ok", "error"]))
def test_no_span_is_too_odd_to_read(
    attributes: dict[str, Any], others: dict[str, Any], name: str, body: Any, status: str
) -> None:
    log = LogView(trace_id=TRACE, span_id=SPAN, name=name, body=body, attributes=others)
    view = span(attributes, status=status, events=[EventView(name, 1, others)], resource=others)
    reading = read(view, [log])
    assert reading.kind is not None and reading.dialect is not None
    assert read(view, [log]) == reading
    alone = read_log(log)
    assert alone is None or isinstance(alone, Reading)


@pytest.mark.parametrize("sender", senders())
def test_every_span_of_every_sender_is_read(sender: str) -> None:
    records = logs(sender)
    readings = [read(view, logs_of(view, records)) for view in spans(sender)]
    alone = [told for log in records if (told := read_log(log))]  # Codex tells all in log records
    assert {"model", "tool"} & {each.kind for each in (*readings, *alone)}
    assert all(each.input is None for each in readings if each.kind == "tool")


def test_messages_told_twice_are_told_once() -> None:
    """Attributes and log records tell the same; the attributes stand."""
    records = logs("otel-genai-openai-both")
    assert records
    for view in spans("otel-genai-openai-both"):
        assert read(view, logs_of(view, records)) == read(view)


def test_attributes_tell_the_figures_and_events_the_words() -> None:
    records = logs("otel-openai-v2-latest-event")
    first = spans("otel-openai-v2-latest-event")[0]
    reading = read(first, logs_of(first, records))
    assert (reading.kind, reading.dialect, reading.usage) == ("model", "genai", Usage(input=120, output=34))
    assert [message.role for message in reading.input or ()] == ["system", "user"]


def test_a_span_of_no_dialect_is_a_plain_span() -> None:
    resource = {"service.name": "shop", "service.version": "3", "deployment.environment": "test"}
    reading = read(span({"http.request.method": "GET", "enduser.id": 7, "session_id": "s1"}, resource=resource))
    assert (reading.kind, reading.dialect) == ("span", "generic")
    assert (reading.session_id, reading.user_id, reading.agent) == ("s1", "7", None)
    assert reading.metadata == {"service": "shop", "release": "3", "environment": "test"}


def test_a_program_that_tells_its_own_doings_knows_its_plain_spans() -> None:
    """Codex repeats a call's figures on spans of its inner life."""
    told = {"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 5}
    assert read(span(told)).kind == "model"
    inner = read(span(told, resource={"service.name": "codex_cli_rs"}))
    assert (inner.kind, inner.dialect) == ("span", "codex")


def test_a_span_may_say_what_it_is() -> None:
    reading = read(span({"dashcam.kind": "agent", "input.value": "hi", "output.value": '{"a": 1}'}))
    assert reading.kind == "agent"
    assert reading.input is not None and reading.input[0].parts == ({"type": "text", "text": "hi"},)
    assert reading.output is not None
    assert (reading.output[0].role, reading.output[0].parts[0]["text"]) == ("assistant", '{"a": 1}')
    assert read(span({"dashcam.kind": "banana"})).kind == "span"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"status": "error", "status_message": "no"}, "no"),
        ({"status": "error"}, "error"),
        ({"status": "error", "events": [EventView("exception", 1, {"exception.message": "why"})]}, "why"),
        ({"events": [EventView("exception", 1, {"exception.type": "KeyError"})]}, "KeyError"),
        ({"status": "ok", "events": [EventView("exception", 1, {"exception.message": "retried"})]}, None),
        ({"status": "ok", "status_message": "fine"}, None),
    ],
)
def test_what_failed_says_why(fields: dict[str, Any], error: str | None) -> None:
    assert read(span({}, **fields)).error == error
    assert read(span({"error.type": "timeout"})).error == "timeout"


def test_an_evaluation_is_a_score() -> None:
    told = {"name": "helpful", "score.value": 0.5, "score.label": "so so", "explanation": "short"}
    attributes = {f"gen_ai.evaluation.{key}": value for key, value in told.items()}
    record = LogView(
        trace_id=TRACE, span_id=SPAN, at_ns=5000, name="gen_ai.evaluation.result", attributes=attributes
    )  # fmt: skip
    reading = read_log(record)
    assert reading is not None and reading.score is not None
    score = reading.score
    assert (score.name, score.value, score.label, score.comment) == ("helpful", 0.5, "so so", "short")
    assert (score.trace_id, score.span_id, score.ts) == (TRACE, SPAN, 5)
    named = read_log(LogView(trace_id=TRACE, name=record.name, attributes={**attributes, "session.id": "s1"}))
    assert named is not None and named.session_id == "s1"
    assert read_log(LogView(trace_id=TRACE, name="http.request", attributes=attributes)) is None

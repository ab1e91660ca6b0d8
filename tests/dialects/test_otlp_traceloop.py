"""Traceloop: functions as entities, and the messages of its older versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from otlp_odd import odd_spans
from otlp_samples import senders, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp import read as reader
from dashcam.dialects.otlp.reading import Reading, SpanView
from dashcam.dialects.otlp.traceloop import read

OLDER = {
    "llm.request.type": "chat",
    "gen_ai.system": "OpenAI",
    "gen_ai.request.model": "gpt-4o-mini",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": '[{"type": "text", "text": "Weather?"}]',
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "call_1",
    "gen_ai.prompt.2.tool_calls.0.name": "look",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"at": 1}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.content": "21C",
    "gen_ai.prompt.3.tool_call_id": "call_1",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "[sunny] It is 21C.",
    "gen_ai.completion.0.finish_reason": "stop",
    "llm.request.functions.0.name": "look",
    "llm.request.functions.0.description": "Look outside",
    "llm.request.functions.0.parameters": '{"type": "object"}',
    "gen_ai.usage.prompt_tokens": 120,
    "gen_ai.usage.completion_tokens": 34,
    "gen_ai.usage.cache_read_input_tokens": 64,
    "llm.usage.total_tokens": 154,
    "traceloop.association.properties.session_id": "s-1",
}


def span(attributes: dict[str, Any]) -> SpanView:
    return SpanView(trace_id="1" * 32, span_id="2" * 16, attributes=attributes)


def tell(attributes: dict[str, Any]) -> Reading:
    reading = read(span(attributes), ())
    assert reading is not None
    return reading


def test_nothing_is_said_of_spans_of_others() -> None:
    others = [view for sender in senders() if not sender.startswith("traceloop") for view in spans(sender)]
    assert others and all(read(view, ()) is None for view in others)


def test_the_kind_of_every_span() -> None:
    told = [(view.name, reader.read(view).kind) for view in spans("traceloop")]
    assert told == [
        ("lookup.tool", "tool"),
        ("weather_agent.agent", "agent"),
        ("weather_workflow.workflow", "agent"),
        *[("openai.chat", "model")] * 5,
        ("anthropic.messages.create", "model"),
        ("anthropic.chat", "model"),
    ]


def test_every_span_of_a_workflow_has_its_session_user_and_name() -> None:
    readings = [read(view, ()) for view in spans("traceloop")]
    assert {(each.session_id, each.user_id) for each in readings if each} == {("sess-tl-1", "u1")}
    noted = {"session_id": "sess-tl-1", "user_id": "u1", "workflow": "weather_workflow"}
    assert all(each is not None and each.metadata == noted for each in readings)


def test_a_decorated_tool_and_agent() -> None:
    tool, agent, workflow = (read(view, ()) for view in spans("traceloop")[:3])
    assert tool is not None and agent is not None and workflow is not None
    assert (tool.tool, tool.arguments, tool.result) == ("lookup", {"args": ["y"], "kwargs": {}}, {"x": "y"})
    assert (agent.agent, workflow.agent) == ("weather_agent", None)


def test_newer_calls_are_left_to_opentelemetrys_names() -> None:
    views = [view for view in spans("traceloop") if view.name.endswith(".chat")]
    for view in views:
        own = read(view, ())
        assert own is not None and (own.kind, own.input, own.output, own.usage) == (None, None, None, None)
    told = [reader.read(view).usage for view in views]
    assert told[-1] == Usage(input=12, output=47, cache_read=2048, cache_write=350)
    assert told[0] == Usage(input=56, output=26, reasoning=8, cache_read=64)


def test_an_older_call_is_told_in_full() -> None:
    reading = reader.read(span(OLDER))
    assert (reading.kind, reading.dialect, reading.session_id) == ("model", "traceloop", "s-1")
    assert [(each.role, each.parts) for each in reading.input or ()] == [
        ("system", ({"type": "text", "text": "Be brief."},)),
        ("user", ({"type": "text", "text": "Weather?"},)),
        ("assistant", ({"type": "tool-call", "toolCallId": "call_1", "toolName": "look", "input": {"at": 1}},)),
        ("tool", ({"type": "tool-result", "toolCallId": "call_1", "toolName": None, "output": "21C", "error": False},)),
    ]
    assert [each.parts for each in reading.output or ()] == [({"type": "text", "text": "[sunny] It is 21C."},)]
    assert json.loads(reading.tools or "") == [
        {"name": "look", "description": "Look outside", "parameters": {"type": "object"}}
    ]
    assert reading.usage == Usage(input=56, output=34, cache_read=64)
    assert (reading.model, reading.stop_reason) == ("gpt-4o-mini", "stop")


def test_calls_in_an_older_answer() -> None:
    start = "gen_ai.completion.0."
    called = {start + "role": "assistant", start + "finish_reason": "tool_calls"}
    several = {start + f"tool_calls.{at}.{key}": f"{key}{at}" for at in (0, 1) for key in ("id", "name")}
    reading = tell(called | several)
    assert [part["toolCallId"] for part in (reading.output or ())[0].parts] == ["id0", "id1"]
    single = {start + "function_call.name": "look", start + "function_call.arguments": "{}"}
    part = (tell(called | single).output or ())[0].parts[0]
    assert (part["type"], part["toolName"], part["input"]) == ("tool-call", "look", {})


@pytest.mark.parametrize(
    ("given_as", "result", "call_id"),
    [
        ('"sunny"', "sunny", None),
        ("null", None, None),
        ("sunny", "sunny", None),
        ('{"output": "sunny", "kwargs": {}}', "sunny", None),
        (
            json.dumps({"output": {"lc": 1, "kwargs": {"type": "tool", "content": "sunny", "tool_call_id": "c1"}}}),
            "sunny",
            "c1",
        ),
    ],
)
def test_what_a_tool_gave(given_as: str, result: Any, call_id: str | None) -> None:
    reading = tell({"traceloop.span.kind": "tool", "traceloop.entity.output": given_as})
    assert (reading.result, reading.call_id) == (result, call_id)


def test_a_tool_of_langchain_was_called_with_its_inputs() -> None:
    told = {"input_str": "{'city': 'Paris'}", "tags": [], "metadata": {}, "inputs": {"city": "Paris"}, "kwargs": {}}
    start = {"traceloop.span.kind": "tool", "traceloop.entity.name": "look"}
    reading = tell(start | {"traceloop.entity.input": json.dumps(told)})
    assert (reading.tool, reading.arguments) == ("look", {"city": "Paris"})
    assert (
        tell(start | {"traceloop.entity.input": json.dumps(told | {"inputs": None})}).arguments == "{'city': 'Paris'}"
    )


def test_a_graph_is_handed_messages_and_gives_what_follows_the_question() -> None:
    question, answer = {"role": "user", "content": "Weather?"}, {"type": "ai", "content": "Sunny."}
    reading = tell(
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": json.dumps({"inputs": {"messages": [question]}, "tags": []}),
            "traceloop.entity.output": json.dumps({"outputs": {"messages": [question, answer]}}),
        }
    )
    assert [each.role for each in reading.input or ()] == ["user"]
    assert [each.parts[0]["text"] for each in reading.output or ()] == ["Sunny."]


@pytest.mark.parametrize(
    ("asked", "kind"), [("chat", "model"), ("completion", "model"), ("embedding", "span"), ("rerank", "retrieval")]
)
def test_the_kind_follows_from_what_was_asked(asked: str, kind: str) -> None:
    assert tell({"llm.request.type": asked}).kind == kind


KEYS = sorted({key for view in spans("traceloop") for key in view.attributes} | OLDER.keys()) + [
    *("gen_ai.completion.0.tool_calls.0.name", "gen_ai.completion.0.function_call.name"),
]


@pytest.mark.slow
@given(odd_spans(KEYS))
def test_no_span_is_too_odd(view: SpanView) -> None:
    reading = read(view, ())
    if reading is not None and reading.tools is not None:
        assert isinstance(json.loads(reading.tools), list)
    assert reader.read(view).kind is not None

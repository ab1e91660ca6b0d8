"""Logfire and Pydantic AI: spans that are still running, runs of agents, and the forms of older versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from otlp_odd import odd_spans
from otlp_samples import senders, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp import read as reader
from dashcam.dialects.otlp.logfire import read
from dashcam.dialects.otlp.reading import Reading, Said, SpanView

LOGFIRE = "logfire-sdk-5.2.0"
PYDANTIC = ["pydantic-ai-v2", "pydantic-ai-v3", "pydantic-ai-v4", "pydantic-ai-v5"]
ONE_CALL = Usage(input=56, output=26, reasoning=8, cache_read=64)
OPENAI = "logfire.openai"


def span(attributes: dict[str, Any], **fields: Any) -> SpanView:
    return SpanView(trace_id="1" * 32, span_id="2" * 16, attributes=attributes, **fields)


def tell(attributes: dict[str, Any], **fields: Any) -> Reading:
    reading = read(span(attributes, **fields), ())
    assert reading is not None
    return reading


def spoken(messages: tuple[Said, ...] | None) -> list[tuple[str, str]]:
    return [(each.role, part["type"]) for each in messages or () for part in each.parts]


def test_nothing_is_said_of_spans_of_others() -> None:
    others = [
        view for sender in senders() if not sender.startswith(("logfire", "pydantic-ai")) for view in spans(sender)
    ]
    assert others and all(read(view, ()) is None for view in others)


def test_the_kind_of_every_span_of_logfire() -> None:
    told = [(view.name.partition(" ")[0], reader.read(view)) for view in spans(LOGFIRE)]
    assert [(name, reading.kind, reading.pending) for name, reading in told] == [
        ("handle", "span", True),
        ("invoke_agent", "agent", True),
        ("chat", "model", False),
        ("execute_tool", "tool", False),
        ("chat", "model", True),
        ("chat", "model", False),
        ("invoke_agent", "agent", False),
        ("handle", "span", False),
        ("Chat", "model", False),
        ("Chat", "model", True),
        ("Chat", "model", False),
    ]


def test_a_pending_span_stands_for_the_one_above_it() -> None:
    pending = [reading for view in spans(LOGFIRE) if (reading := read(view, ())) and reading.pending]
    assert [(each.stands_for, each.parent_span_id) for each in pending] == [
        ("988643f7dfd5aaab", None),
        ("c67f050e31f2aa3a", "988643f7dfd5aaab"),
        ("7ccdb0508c0ac079", "c67f050e31f2aa3a"),
        ("0e023b73b713b708", None),
    ]
    real = {view.span_id: view.parent_span_id for view in spans(LOGFIRE)}
    assert all(real[each.stands_for or ""] == each.parent_span_id for each in pending)


def test_a_session_that_was_scrubbed_is_none() -> None:
    sessions = {view.name: reader.read(view).session_id for view in spans(LOGFIRE)}
    assert sessions["handle request {q}"] is None
    assert sessions["chat gpt-4o-mini"] == "01a1de0d-ef4b-77e1-a009-223ab5ccb3ae"
    assert sessions["Chat Completion with {request_data[model]!r}"] == "sess-42"


def test_the_raw_usage_tells_the_cache_that_the_sums_hide() -> None:
    done = [view for view in spans(LOGFIRE) if "gen_ai.usage.raw" in view.attributes]
    assert [reader.read(view).usage for view in done] == [ONE_CALL] * 2
    assert [reader.read(view).cost_usd for view in done] == [3.36e-05] * 2


@pytest.mark.parametrize("sender", PYDANTIC)
def test_the_kinds_sessions_and_tokens_of_pydantic_ai(sender: str) -> None:
    told = [(view, reader.read(view)) for view in spans(sender)]
    run = ["model", "tool", "model", "agent"]
    assert [reading.kind for _, reading in told] == [*run, "model", "agent", *run]
    assert {reading.session_id for _, reading in told[6:]} == {"conv-123"}
    assert {reading.agent for _, reading in told} == {"weather_agent"}
    assert [reading.usage for _, reading in told if reading.kind == "model"] == [ONE_CALL] * 2 + [None] + [ONE_CALL] * 2
    assert [reading.cost_usd for _, reading in told if reading.kind == "agent"] == [None] * 3


@pytest.mark.parametrize("sender", PYDANTIC)
def test_a_tool_run_of_pydantic_ai_under_old_and_new_names(sender: str) -> None:
    readings = [reader.read(view) for view in spans(sender)]
    asked, ran = readings[0], readings[1]
    assert (ran.tool, ran.arguments, ran.result) == ("get_weather", {"city": "Paris"}, "Paris: 21C, sunny")
    assert asked.output is not None and asked.output[0].parts[-1]["toolCallId"] == ran.call_id


@pytest.mark.parametrize("sender", PYDANTIC)
def test_a_run_was_given_its_history_and_gave_what_is_new(sender: str) -> None:
    first, failed, second = (each for view in spans(sender) if (each := reader.read(view)).kind == "agent")
    assert first.system == "You are a weather helper."
    assert spoken(first.input) == [("user", "text")]
    assert [role for role, _ in spoken(first.output)] == ["assistant"] * 3 + ["tool"] + ["assistant"] * 2
    assert first.input is not None and first.output is not None and second.input is not None
    history = first.input + first.output
    assert second.input[: len(history)] == history
    assert [each.role for each in second.input[len(history) :]] == ["user"]
    assert failed.output is None and failed.error is not None


def test_a_run_of_the_first_version_is_told_in_events() -> None:
    events = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "Be brief.", "gen_ai.message.index": 0},
        {"event.name": "gen_ai.user.message", "content": "Weather?", "gen_ai.message.index": 0},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "Sunny.", "gen_ai.message.index": 1},
    ]
    told = {"all_messages_events": json.dumps(events), "agent_name": "helper", "final_result": "Sunny."}
    reading = tell(told, name="agent run", scope="pydantic-ai")
    assert (reading.kind, reading.agent) == ("agent", "helper")
    assert [each.role for each in reading.input or ()] == ["system", "user"]
    assert [each.parts for each in reading.output or ()] == [({"type": "text", "text": "Sunny."},)]


def test_a_request_of_the_first_version_is_told_in_events() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
    events = [
        {"event.name": "gen_ai.user.message", "content": "Weather?", "role": "user"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "tool_calls": [call]}},
    ]
    reading = tell({"events": json.dumps(events)}, scope="pydantic-ai")
    assert spoken(reading.input) == [("user", "text")]
    assert [each.parts for each in reading.output or ()] == [
        ({"type": "tool-call", "toolCallId": "c1", "toolName": "look", "input": {"at": 1}},)
    ]


def test_a_result_stands_for_an_answer_that_is_told_nowhere_else() -> None:
    reading = tell({"final_result": "Sunny."}, name="agent run", scope="pydantic-ai")
    assert [(each.role, each.parts[0]["text"]) for each in reading.output or ()] == [("assistant", "Sunny.")]


def test_tools_are_read_from_the_parameters_only_where_nobody_else_tells_them() -> None:
    view = spans(PYDANTIC[0])[0]
    own = read(view, ())
    assert own is not None and own.tools is None
    attributes = {key: value for key, value in view.attributes.items() if key != "gen_ai.tool.definitions"}
    told = read(span(attributes, scope=view.scope), ())
    assert told is not None
    assert json.loads(told.tools or "") == json.loads(view.attributes["gen_ai.tool.definitions"])


REQUEST = {
    "model": "gpt-4o",
    "temperature": 0,
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"name": "t"}],
}


def test_an_exchange_of_the_first_version() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    answer = {"message": {"role": "assistant", "content": "Hello"}, "usage": usage}
    told = {"request_data": json.dumps(REQUEST), "response_data": json.dumps(answer), "logfire.span_type": "span"}
    reading = tell(told, scope=OPENAI)
    assert (reading.kind, reading.model, reading.settings) == ("model", "gpt-4o", {"temperature": 0})
    assert (spoken(reading.input), spoken(reading.output)) == ([("user", "text")], [("assistant", "text")])
    assert reading.usage == Usage(input=6, output=5, cache_read=4)
    assert json.loads(reading.tools or "") == [{"name": "t"}]


def test_the_model_that_answered_and_settings_under_opentelemetrys_names() -> None:
    told = {"request_data": '{"model": "gpt-4o", "stream": false}', "gen_ai.operation.name": "chat"}
    told |= {"gen_ai.response.model": "gpt-4o-2024", "gen_ai.request.temperature": "0.2", "gen_ai.response.id": "r"}
    reading = reader.read(span(told, scope=OPENAI))
    assert (reading.model, reading.settings) == ("gpt-4o-2024", {"temperature": "0.2"})


def test_a_request_that_streams_is_told_by_the_log_of_its_answer() -> None:
    """Both have the request; only one of the two is a call."""
    asked = {"request_data": json.dumps(REQUEST), "gen_ai.operation.name": "chat"}
    request = span(asked | {"logfire.span_type": "span"}, scope=OPENAI)
    assert reader.read(request).kind == "agent"
    answer = {"combined_chunk_content": "Hello", "chunk_count": 1}
    log = span(asked | {"logfire.span_type": "log", "response_data": json.dumps(answer)}, scope=OPENAI)
    reading = reader.read(log)
    assert (reading.kind, spoken(reading.output)) == ("model", [("assistant", "text")])
    events = [{"event.name": "gen_ai.user.message", "content": "Hi", "role": "user"}]
    responses = span(asked | {"logfire.span_type": "span", "events": json.dumps(events)}, scope=OPENAI)
    assert reader.read(responses).kind == "agent"
    failed = span(asked | {"logfire.span_type": "span"}, scope=OPENAI, status="error")
    assert reader.read(failed).kind == "model"
    embedding = asked | {"gen_ai.operation.name": "embeddings", "request_data": '{"model": "e"}'}
    assert reader.read(span(embedding | {"logfire.span_type": "span"}, scope=OPENAI)).kind == "span"


def test_spans_of_openais_agents_through_logfire() -> None:
    scope = "logfire.openai_agents"
    tool = tell(
        {"logfire.msg_template": "Function: {name}", "name": "look", "input": '{"at": 1}', "output": "21C"}, scope=scope
    )
    assert (tool.kind, tool.tool, tool.arguments, tool.result) == ("tool", "look", {"at": 1}, "21C")
    agent = tell({"logfire.msg_template": "Agent run: {name!r}", "name": "helper"}, scope=scope)
    assert (agent.kind, agent.agent) == ("agent", "helper")
    trace = tell({"logfire.msg_template": "OpenAI Agents trace: {name}", "group_id": "thread-1"}, scope=scope)
    assert (trace.kind, trace.session_id) == ("agent", "thread-1")
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    call = tell({"request_data": json.dumps({"messages": messages})}, scope=scope)
    assert (call.kind, spoken(call.input), spoken(call.output)) == (
        "model",
        [("user", "text")],
        [("assistant", "text")],
    )


def test_a_level_from_error_on_is_an_error() -> None:
    told = {"logfire.msg": "it broke", "logfire.level_num": 17}
    assert tell(told).error == "it broke"
    assert tell(told | {"logfire.level_num": 13}).error is None
    assert tell(told, status="error").error is None, "the status says what happened"


def test_tags_of_the_application_are_kept() -> None:
    assert tell({"logfire.tags": ["LLM", "billing"]}).metadata == {"tags": ["billing"]}
    assert tell({"logfire.tags": ["LLM"]}).metadata is None


KEYS = sorted({key for sender in (LOGFIRE, *PYDANTIC) for view in spans(sender) for key in view.attributes}) + [
    *("events", "all_messages_events", "response_data", "group_id", "name", "input", "output", "logfire.level_num"),
]


@pytest.mark.slow
@given(odd_spans(KEYS, scopes=["pydantic-ai", "logfire", OPENAI, "logfire.openai_agents"]))
def test_no_span_is_too_odd(view: SpanView) -> None:
    reading = read(view, ())
    assert reading is not None
    if reading.tools is not None:
        assert isinstance(json.loads(reading.tools), list)
    assert reading.stands_for is None or reading.pending

"""OpenTelemetry's conventions for generative AI, as real senders tell them and as the documents have them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from otlp_samples import logs, logs_of, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp import genai, genai_events
from dashcam.dialects.otlp.reading import EventView, LogView, Reading, SpanView
from dashcam.dialects.otlp.values import listed, session_of, stop_reason

QUESTION = {"type": "text", "text": "What is the weather in Paris?"}
PLAN = {"type": "text", "text": "I will look at the project first."}
DONE = {"type": "text", "text": "Done. I listed the files, read the README and wrote notes.txt."}
SYSTEM = {"type": "text", "text": "You are a weather helper."}
ONE_CALL = Usage(input=56, output=26, reasoning=8, cache_read=64)


def model_calls(sender: str) -> list[Reading]:
    """Every model call of a sample, as attributes tell it."""
    readings = [genai.read(view, ()) for view in spans(sender)]
    return [each for each in readings if each is not None and each.kind == "model"]


def told_by_events(sender: str) -> list[Reading]:
    """Every span of a sample, as its events tell it."""
    records = logs(sender)
    readings = [genai_events.read(view, logs_of(view, records)) for view in spans(sender)]
    return [each for each in readings if each is not None]


def roles(messages: Any) -> list[str]:
    return [message.role for message in messages or ()]


def span(attributes: dict[str, Any], **fields: Any) -> SpanView:
    return SpanView(trace_id="1" * 32, span_id="2" * 16, attributes=attributes, **fields)


def log(name: str, body: Any = None, **fields: Any) -> LogView:
    return LogView(trace_id="1" * 32, span_id="2" * 16, name=name, body=body, **fields)


def read(attributes: dict[str, Any], **fields: Any) -> Reading:
    reading = genai.read(span(attributes, **fields), ())
    assert reading is not None
    return reading


@pytest.mark.parametrize("sender", ["otel-genai-openai-span", "otel-genai-openai-both"])
def test_a_span_tells_the_whole_call(sender: str) -> None:
    first, second, *_ = model_calls(sender)
    assert roles(first.input) == ["system", "user"]
    assert first.output is not None and first.output[0].parts[1] == PLAN
    call = first.output[0].parts[0]
    assert (call["type"], call["toolName"], call["input"]) == ("tool-call", "get_weather", {"city": "Paris"})
    assert roles(second.input) == ["system", "user", "assistant", "tool"]
    assert second.input is not None
    assert second.input[3].parts[0]["output"] == "Paris: 21C, sunny"
    assert second.input[3].parts[0]["toolCallId"] == call["toolCallId"]
    assert second.output is not None and second.output[0].parts == (DONE,)
    assert [each.stop_reason for each in (first, second)] == ["tool_calls", "stop"]
    assert first.usage == second.usage == ONE_CALL
    assert (first.provider, first.model, first.settings) == ("openai", "gpt-4o-mini", {"temperature": 0.2})
    assert first.tools is not None and json.loads(first.tools)[0]["name"] == "get_weather"
    assert first.response_id is not None and first.response_id.startswith("chatcmpl-")


def test_the_first_chunk_is_counted_in_milliseconds() -> None:
    streamed = [each.first_token_ms for each in model_calls("otel-genai-openai-span") if each.first_token_ms]
    assert streamed and all(5 < each < 1000 for each in streamed)


def test_a_call_of_the_responses_api_has_its_instructions_beside_the_messages() -> None:
    call = model_calls("otel-genai-openai-span")[4]
    assert call.system == SYSTEM["text"]
    assert roles(call.input) == ["user"]
    assert call.usage == Usage(input=476, output=40, reasoning=20, cache_read=1024)
    assert call.stop_reason == "tool_calls"  # it says ['stop', 'tool_calls']: the answer goes on


def test_a_failed_call_says_why() -> None:
    assert [each.error for each in model_calls("otel-genai-openai-span")][-1] == "Error code: 400 - Fake: bad request"
    assert all(each.error is None for each in model_calls("otel-genai-openai-span")[:-1])


def test_without_content_the_figures_are_still_there() -> None:
    calls = model_calls("otel-genai-openai-nocontent")
    assert len(calls) == 6
    assert all(each.input is None and each.output is None for each in calls)
    assert calls[0].usage == ONE_CALL


def test_agents_and_workflows_enclose_and_their_tools_run() -> None:
    readings = [genai.read(view, ()) for view in spans("otel-genai-openai-agents")]
    tool, agent, workflow = [each for each in readings if each is not None]
    assert (tool.kind, tool.tool, tool.arguments, tool.result) == (
        *("tool", "get_weather"),
        {"city": "Paris"},
        "Paris: 21C, sunny",
    )
    assert (agent.kind, agent.agent, agent.session_id) == ("agent", "Weather", "thread-99")
    assert (workflow.kind, workflow.session_id) == ("agent", "thread-99")


@pytest.mark.parametrize("sender", ["pydantic-ai-v2", "pydantic-ai-v3", "pydantic-ai-v4", "pydantic-ai-v5"])
def test_pydantic_ai_tells_its_calls_by_the_conventions(sender: str) -> None:
    calls = model_calls(sender)
    answered = [each for each in calls if each.output]
    assert {each.usage for each in answered} == {ONE_CALL}
    assert all(each.system == SYSTEM["text"] and each.cost_usd == 3.36e-05 for each in answered)
    assert roles(answered[1].input) == ["user", "assistant", "tool"]
    assert answered[0].output is not None
    assert [part["type"] for part in answered[0].output[0].parts] == ["reasoning", "text", "tool-call"]
    assert answered[0].output[0].parts[2]["input"] == {"city": "Paris"}
    runs = [each for view in spans(sender) if (each := genai.read(view, ())) and each.kind == "tool"]
    assert {(each.tool, str(each.arguments), each.result) for each in runs} == {
        ("get_weather", "{'city': 'Paris'}", "Paris: 21C, sunny")
    }
    agents = [each for view in spans(sender) if (each := genai.read(view, ())) and each.kind == "agent"]
    assert agents and all(each.usage is None for each in agents)  # aggregated usage is nobody's


def test_gemini_cli_tells_gemini_content() -> None:
    first = model_calls("gemini-cli-native")[0]
    assert first.output is not None
    assert [part["type"] for part in first.output[0].parts] == ["reasoning", "text", "tool-call"]
    assert first.output[0].parts[2]["input"] == {"command": "ls -la"}
    assert first.system is not None and first.system.startswith("You are a non-interactive CLI agent")
    assert first.agent == "gemini-cli"


def test_log_records_tell_messages_whose_content_was_left_out() -> None:
    first, second, *_ = told_by_events("otel-openai-v2-default")
    assert roles(first.input) == ["system", "user"]
    assert first.output is not None and first.output[0].parts[0]["toolName"] == "get_weather"
    assert first.stop_reason == "tool_calls"
    assert roles(second.input) == ["system", "user", "assistant", "tool"]
    assert second.input is not None
    assert second.input[3].parts[0]["toolCallId"] == first.output[0].parts[0]["toolCallId"]


def test_log_records_with_content_tell_the_conversation() -> None:
    records = [
        log("gen_ai.system.message", {"content": "You are a weather helper."}, at_ns=1),
        log("gen_ai.user.message", {"content": "What is the weather in Paris?"}, at_ns=2),
        log("gen_ai.tool.message", {"id": "c1", "content": '{"degrees": 21}'}, at_ns=4),
        log(
            "gen_ai.assistant.message",
            {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            at_ns=3,
        ),
        log(
            "gen_ai.choice",
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "21"}},
            at_ns=5,
        ),
    ]
    reading = genai_events.read(span({"gen_ai.operation.name": "chat"}), records)
    assert reading is not None and reading.kind == "model" and reading.stop_reason == "stop"
    assert roles(reading.input) == ["system", "user", "assistant", "tool"]
    assert reading.input is not None and reading.output is not None
    assert reading.input[1].parts == (QUESTION,)
    # What a tool said stays as the model saw it.
    assert (reading.input[3].parts[0]["toolCallId"], reading.input[3].parts[0]["output"]) == ("c1", '{"degrees": 21}')
    assert reading.output[0].parts == ({"type": "text", "text": "21"},)


def test_google_adk_puts_gemini_content_into_its_records() -> None:
    records = [
        log("gen_ai.user.message", {"content": {"role": "user", "parts": [{"text": QUESTION["text"]}]}}),
        log("gen_ai.choice", {"index": 0, "finish_reason": "STOP", "content": {"role": "model", "parts": [{"text": "x"}]}}),
    ]  # fmt: skip
    reading = genai_events.read(span({"gen_ai.operation.name": "generate_content"}), records)
    assert reading is not None and reading.input is not None and reading.output is not None
    assert reading.input[0].parts == (QUESTION,)
    assert (reading.output[0].role, reading.output[0].parts) == ("assistant", ({"type": "text", "text": "x"},))
    assert reading.stop_reason == "stop"


def test_google_adk_counts_reasoning_within_its_output() -> None:
    reading = read({"gen_ai.usage.output_tokens": 42, "gen_ai.usage.reasoning.output_tokens": 8})
    assert reading.usage == Usage(output=34, reasoning=8)


def test_one_log_record_tells_all_with_nested_attributes() -> None:
    readings = told_by_events("otel-openai-v2-latest-event")
    assert roles(readings[0].input) == ["system", "user"]
    assert readings[0].input is not None and readings[0].input[1].parts == (QUESTION,)
    assert [each.stop_reason for each in readings] == ["tool_calls", "stop", "tool_calls", "stop", None]
    assert readings[-1].error == "BadRequestError"


def test_strands_tells_messages_as_events_of_the_span() -> None:
    by_name = [(view, genai_events.read(view, ())) for view in spans("strands-agents")]
    chats = [each for view, each in by_name if view.name == "chat" and each is not None]
    assert [roles(each.input) for each in chats] == [["system", "user"], ["system", "user", "assistant", "tool"]]
    assert chats[0].output is not None
    assert [part["type"] for part in chats[0].output[0].parts] == ["reasoning", "text", "tool-call"]
    assert [each.stop_reason for each in chats] == ["tool_calls", "stop"]
    assert chats[1].input is not None and chats[1].input[3].parts[0]["output"] == "Paris: 21C, sunny"
    (tool,) = [each for view, each in by_name if view.name.startswith("execute_tool") and each is not None]
    assert (tool.call_id, tool.arguments, tool.result) == (
        "call_fake8cfe1aa27686",
        {"city": "Paris"},
        "Paris: 21C, sunny",
    )
    assert (tool.input, tool.output) == (None, None)
    counted = [genai.read(view, ()) for view in spans("strands-agents") if view.name == "chat"]
    assert [each.usage for each in counted if each] == [Usage(input=56, output=34, cache_read=64)] * 2
    assert [each.first_token_ms for each in counted if each] == [1676, 66]


def test_newer_strands_tells_a_tool_run_by_the_same_event_twice() -> None:
    """Once before it ran, with the arguments, and once after, with the result."""
    name = "gen_ai.client.inference.operation.details"
    call = [{"role": "tool", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}]}]
    gave = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": [{"text": "x"}]}]}]
    events = [
        EventView(name, 1, {"gen_ai.input.messages": json.dumps(call)}),
        EventView(name, 2, {"gen_ai.output.messages": json.dumps(gave)}),
    ]
    reading = genai_events.read(span({"gen_ai.operation.name": "execute_tool"}, events=events), ())
    assert reading is not None
    assert (reading.kind, reading.tool, reading.call_id) == ("tool", "f", "c1")
    assert (reading.arguments, reading.result) == ({"a": 1}, "x")


def test_an_exception_that_is_a_record_of_its_own_is_the_error() -> None:
    record = log("gen_ai.client.operation.exception", attributes={"exception.message": "too many requests"})
    reading = genai_events.read(span({}), [record])
    assert reading is not None and reading.error == "too many requests"


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"input_tokens": 120, "cache_read.input_tokens": 64}, Usage(input=56, cache_read=64)),
        ({"input_tokens": 10, "cache_creation.input_tokens": 4}, Usage(input=6, cache_write=4)),
        ({"input_tokens": 10, "cache_write.input_tokens": 4}, Usage(input=6, cache_write=4)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, Usage(input=10, output=5)),
        ({"output_tokens": 34, "reasoning_tokens": 8}, Usage(output=26, reasoning=8)),
        ({"output_tokens": 34, "details.reasoning_tokens": 8}, Usage(output=26, reasoning=8)),
        ({"input_tokens": 10, "cache_read.input_tokens": 64}, Usage(input=10, cache_read=64)),
        ({"input_tokens": "12", "output_tokens": 3.0}, Usage(input=12, output=3)),
        ({"input_tokens": -5, "output_tokens": True}, None),
        ({"input_tokens": 2**70}, None),
        ({"cost": 1.0}, None),
    ],
)
def test_the_parts_of_a_total_are_taken_out_of_it(told: dict[str, Any], usage: Usage | None) -> None:
    assert genai.usage_of({f"gen_ai.usage.{key}": value for key, value in told.items()}) == usage


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        *((name, "model") for name in ("chat", "generate_content", "text_completion", "llm_call")),
        *((name, "tool") for name in ("execute_tool", "tool_call")),
        *((name, "agent") for name in ("create_agent", "invoke_agent", "invoke_workflow")),
        *(("retrieval", "retrieval"), ("embeddings", "span"), ("juggle", None)),
    ],
)
def test_the_operation_says_what_was_done(operation: str, kind: str | None) -> None:
    assert genai.kind_of({"gen_ai.operation.name": operation}) == kind


def test_a_catalog_is_kept_to_the_letter() -> None:
    catalog = '[ {"name":"f"} ]'
    assert read({"gen_ai.tool.definitions": catalog}).tools == catalog
    assert read({"gen_ai.tool.definitions": ['{"name":"f"}', {"name": "g"}]}).tools == '[{"name":"f"},{"name":"g"}]'


def test_the_session_is_taken_by_the_documented_precedence() -> None:
    keys = (
        *("langfuse.session.id", "session.id", "gen_ai.conversation.id", "langfuse.trace.metadata.session_id"),
        *("langfuse.observation.metadata.sessionId", "ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.chatId"),
        *("traceloop.association.properties.session_id", "traceloop.association.properties.thread_id"),
        *("conversation.id", "session_id", "thread_id"),
    )
    for place, key in enumerate(keys):
        assert session_of(dict.fromkeys(reversed(keys[place + 1 :]), "later") | {key: "first"}) == "first"
    assert session_of({"session.id": "[Scrubbed due to 'session']", "gen_ai.conversation.id": 7}) == "7"
    assert session_of({"session.id": " ", "conversation.id": True}) is None
    assert session_of({"session.id": "x" * 900}) == "x" * 900


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        *((each, "tool_calls") for each in ("tool_calls", "tool_call", "tool-calls", "tool_use", "function_call")),
        *((each, "stop") for each in ("stop", "end_turn", "STOP", "stop_sequence", "completed", ["stop"], '["stop"]')),
        *((each, "length") for each in ("length", "max_tokens", "MAX_TOKENS")),
        *(("content_filter", "content_filter"), (["stop", "tool_calls"], "tool_calls"), ([], None), (5, None)),
    ],
)
def test_every_reason_to_stop_has_one_name(reason: Any, name: str | None) -> None:
    assert stop_reason(reason) == name


def test_flattened_lists_come_back_in_order_whatever_their_indexes() -> None:
    told = {
        "m.10.role": "c",
        "m.1.role": "a",
        "m.2.role": "b",
        "m.2.x.y": 1,
        f"m.{'9' * 400}.role": "!",
        "m.x.role": "!",
    }
    assert listed(told, "m") == [{"role": "a"}, {"role": "b", "x.y": 1}, {"role": "c"}]

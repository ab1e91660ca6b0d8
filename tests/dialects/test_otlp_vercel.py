"""The AI SDK: `ai.*` up to 6, and the steps of 7."""

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
from dashcam.dialects.otlp.vercel import read

SENDER = "vercel-ai-sdk-6.0.326-json"
ONE_CALL = Usage(input=56, output=26, reasoning=8, cache_read=64)


def tell(attributes: dict[str, Any], **fields: Any) -> Reading:
    reading = read(SpanView(trace_id="1" * 32, span_id="2" * 16, attributes=attributes, **fields), ())
    assert reading is not None
    return reading


def samples(name: str) -> list[Reading]:
    return [reading for view in spans(SENDER) if view.name == name and (reading := read(view, ()))]


def types(reading: Reading) -> list[tuple[str, str]]:
    messages = (reading.input or ()) + (reading.output or ())
    return [(each.role, part["type"]) for each in messages for part in each.parts]


def test_nothing_is_said_of_spans_of_others() -> None:
    others = [view for sender in senders() if not sender.startswith("vercel-ai-sdk") for view in spans(sender)]
    assert others and all(read(view, ()) is None for view in others)


def test_the_kind_of_every_span() -> None:
    told = [(view.name, reading.kind) for view in spans(SENDER) if (reading := read(view, ()))]
    assert told == [
        ("ai.generateText.doGenerate", "model"),
        ("ai.toolCall", "tool"),
        ("ai.generateText.doGenerate", "model"),
        ("ai.generateText", "agent"),
        ("ai.toolCall", "tool"),
        ("ai.streamText.doStream", "model"),
        ("ai.streamText.doStream", "model"),
        ("ai.streamText", "agent"),
    ]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("ai.generateObject", "agent"),
        ("ai.generateObject.doGenerate", "model"),
        ("ai.streamObject.doStream", "model"),
        ("ai.embed", "span"),
        ("ai.embedMany.doEmbed", "span"),
    ],
)
def test_the_kind_follows_from_the_operation(operation: str, kind: str) -> None:
    assert tell({"ai.operationId": operation}).kind == kind


def test_a_call_and_the_call_after_its_tool() -> None:
    first, second = samples("ai.generateText.doGenerate")
    assert types(first) == [
        *(("system", "text"), ("user", "text")),
        *(("assistant", "reasoning"), ("assistant", "text"), ("assistant", "tool-call")),
    ]
    assert types(second)[2:6] == [*types(first)[2:], ("tool", "tool-result")]
    assert first.output is not None and second.input is not None
    assert first.output[0].parts == second.input[2].parts, "an answer and its repetition are one"
    assert second.input[3].parts[0]["output"] == {"city": "Paris", "tempC": 21}


def test_whose_call_it_is_and_how_it_was_made() -> None:
    reading = samples("ai.streamText.doStream")[0]
    assert (reading.session_id, reading.user_id, reading.agent) == ("sess-js-1", "u1", "weather-agent")
    assert (reading.provider, reading.model, reading.response_id) == (
        "fake",
        "gpt-4o-mini",
        "chatcmpl-fake981d169acde7",
    )
    assert reading.settings == {"maxRetries": 2, "toolChoice": {"type": "auto"}}
    assert reading.metadata == {"sessionId": "sess-js-1", "userId": "u1", "langfuseTraceId": "t1"}
    assert reading.first_token_ms == pytest.approx(32.54, abs=0.01)
    assert reading.stop_reason == "tool_calls"


def test_the_tools_are_a_json_list_to_the_letter() -> None:
    view = spans(SENDER)[0]
    reading = read(view, ())
    assert reading is not None and reading.tools == f"[{','.join(view.attributes['ai.prompt.tools'])}]"


def test_the_cache_and_the_thoughts_are_counted_once() -> None:
    calls = [*samples("ai.generateText.doGenerate"), *samples("ai.streamText.doStream")]
    assert [call.usage for call in calls] == [ONE_CALL] * 4
    assert [reader.read(view).usage for view in spans(SENDER) if "do" in view.name] == [ONE_CALL] * 4


def test_the_counts_of_older_versions() -> None:
    told = {"ai.operationId": "ai.generateText.doGenerate", "ai.usage.promptTokens": 9, "ai.usage.completionTokens": 4}
    assert tell(told).usage == Usage(input=9, output=4)


def test_a_tool_run() -> None:
    reading = samples("ai.toolCall")[0]
    assert (reading.tool, reading.call_id) == ("get_weather", "call_fakeb715d5791dc9")
    assert (reading.arguments, reading.result) == ({"city": "Paris"}, {"city": "Paris", "tempC": 21})
    other = tell({"ai.operationId": "ai.toolCall", "ai.toolCall.input": "{}", "ai.toolCall.output": "done"})
    assert (other.arguments, other.result) == ({}, "done")


def test_the_outer_span_has_system_question_and_answer() -> None:
    reading = samples("ai.generateText")[0]
    assert reading.system == "You are a weather helper."
    assert types(reading) == [("user", "text"), ("assistant", "reasoning"), ("assistant", "text")]


def test_an_object_is_an_answer_too() -> None:
    reading = tell({"ai.operationId": "ai.generateObject.doGenerate", "ai.response.object": '{"a": 1}'})
    assert reading.output is not None and reading.output[0].parts == ({"type": "text", "text": '{"a": 1}'},)


def test_steps_of_version_7_enclose_calls_and_say_no_more() -> None:
    step = SpanView(trace_id="1" * 32, span_id="2" * 16, name="step 2", scope="gen_ai", attributes={})
    assert read(step, ()) == Reading(kind="agent", dialect="vercel")
    assert read(SpanView(trace_id="1" * 32, span_id="2" * 16, name="step 2", scope="mine"), ()) is None
    chat = {"gen_ai.operation.name": "chat"}
    assert (
        read(SpanView(trace_id="1" * 32, span_id="2" * 16, name="chat m", scope="gen_ai", attributes=chat), ()) is None
    )


KEYS = sorted({key for view in spans(SENDER) for key in view.attributes if key.startswith("ai.")}) + [
    *("ai.operationId", "ai.response.object", "ai.response.files", "ai.toolCall.input", "ai.usage.promptTokens"),
]


@pytest.mark.slow
@given(odd_spans(KEYS, scopes=["ai", "gen_ai"]))
def test_no_span_is_too_odd(view: SpanView) -> None:
    reading = read(view, ())
    if reading is not None and reading.tools is not None:
        assert isinstance(json.loads(reading.tools), list)
    assert reading is None or reading.kind is not None

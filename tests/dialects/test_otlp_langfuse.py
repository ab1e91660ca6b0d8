"""Langfuse SDKs: observations by type, values as JSON texts, counts that stand beside each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from otlp_odd import odd_spans
from otlp_samples import senders, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.langfuse import read
from dashcam.dialects.otlp.reading import Reading, SpanView

SEEN = "langfuse.observation."


def tell(attributes: dict[str, Any], **fields: Any) -> Reading:
    reading = read(SpanView(trace_id="1" * 32, span_id="2" * 16, attributes=attributes, **fields), ())
    assert reading is not None
    return reading


def sample(span_id: str) -> Reading:
    reading = read(next(view for view in spans("langfuse") if view.span_id == span_id), ())
    assert reading is not None
    return reading


def spoken(reading: Reading) -> list[tuple[str, str]]:
    """Who said what, question and answer; of a call its id, of a result its output."""
    key = {"text": "text", "tool-call": "toolCallId", "tool-result": "output", "reasoning": "text"}
    messages = (reading.input or ()) + (reading.output or ())
    return [(each.role, part[key[part["type"]]]) for each in messages for part in each.parts]


def test_nothing_is_said_of_spans_of_others() -> None:
    others = [view for sender in senders() if sender != "langfuse" for view in spans(sender)]
    assert others and all(read(view, ()) is None for view in others)


def test_the_kind_of_every_observation() -> None:
    told = [(view.name, reading.kind) for view in spans("langfuse") if (reading := read(view, ()))]
    generation = ("OpenAI-generation", "model")
    assert told == [
        ("lookup", "tool"),
        *[generation] * 5,
        ("weather_agent", "agent"),
        ("manual-gen", "model"),
        *(generation, ("ChatOpenAI", "model"), ("model", "agent")),
        *(("get_weather", "tool"), ("tools", "agent")),
        *(generation, ("ChatOpenAI", "model"), ("model", "agent")),
        ("LangGraph", "agent"),
    ]


@pytest.mark.parametrize("named", ["span", "event", "embedding", "evaluator", "guardrail", "something new"])
def test_other_observations_are_plain_spans(named: str) -> None:
    assert tell({SEEN + "type": named}).kind == "span"


def test_a_trace_without_a_type_leaves_the_kind_to_others() -> None:
    assert tell({"langfuse.trace.name": "t"}).kind is None


def test_a_generation_is_told_in_full() -> None:
    reading = sample("89b48cfc22b4ec89")
    assert (reading.session_id, reading.user_id, reading.model) == ("sess-lf-1", "user-1", "gpt-4o-mini")
    assert reading.metadata == {"k": "v", "tags": ["t1"]}
    assert spoken(reading) == [
        ("system", "You are a weather helper."),
        ("user", "What is the weather in Paris?"),
        ("assistant", "First I should look at the directory."),
        ("assistant", "I will look at the project first."),
        ("assistant", "call_fakef61e52b5bd75"),
        ("tool", "Paris: 21C, sunny"),
        ("assistant", "Done. I listed the files, read the README and wrote notes.txt."),
    ]
    assert json.loads(reading.tools or "")[0]["function"]["name"] == "get_weather"
    assert reading.settings is not None and reading.settings["temperature"] == 0.2
    assert reading.usage == Usage(input=56, output=26, reasoning=8, cache_read=64)


def test_a_message_is_kept_as_it_was_sent() -> None:
    view = next(view for view in spans("langfuse") if view.span_id == "89b48cfc22b4ec89")
    reading = read(view, ())
    assert reading is not None and reading.input is not None
    assert all(message.raw.decode() in view.attributes[SEEN + "input"] for message in reading.input)


def test_a_stream_has_its_first_token_and_its_end() -> None:
    reading = sample("635d82244618102c")
    assert reading.stop_reason == "tool_calls"
    assert reading.first_token_ms == pytest.approx(55.608)


def test_an_answer_that_is_a_text_is_the_assistants() -> None:
    assert spoken(sample("54d18810d16d0fd0")) == [("user", "hi"), ("assistant", "hello")]


def test_what_langfuse_counts_stands_beside_each_other() -> None:
    assert sample("54d18810d16d0fd0").usage == Usage(input=10, output=5, cache_read=3)
    langchain = sample("c55df9eb7964ae89")
    assert langchain.usage == Usage(input=56, output=26, reasoning=8, cache_read=64) == sample("97031386979fd4d5").usage


def test_the_total_tells_counts_that_hold_others() -> None:
    details = {"input": 120, "output": 34, "total": 154, "input_cached_tokens": 64, "output_reasoning_tokens": 8}
    reading = tell({SEEN + "usage_details": json.dumps(details)})
    assert reading.usage == Usage(input=56, output=26, reasoning=8, cache_read=64)


@pytest.mark.parametrize(
    ("details", "cost"),
    [({"input": 0.001, "output": 0.002}, 0.003), ({"input": 1, "total": 5}, 5), ({}, None), ({"total": -1}, None)],
)
def test_the_cost_is_the_total_or_the_sum(details: dict[str, float], cost: float | None) -> None:
    assert tell({SEEN + "cost_details": json.dumps(details)}).cost_usd == cost


def test_a_failed_call_says_why() -> None:
    reading = sample("90df3c7295c9c0fd")
    assert (reading.error, reading.cost_usd, reading.usage) == ("Error code: 400 - Fake: bad request", 0, None)
    assert tell({SEEN + "level": "WARNING", SEEN + "status_message": "slow"}).error is None


def test_tools_that_langchain_puts_among_the_messages_are_the_catalog() -> None:
    reading = sample("c55df9eb7964ae89")
    assert [role for role, _ in spoken(reading)] == ["user", "assistant", "assistant"]
    assert json.loads(reading.tools or "")[0]["function"]["name"] == "get_weather"


def test_a_tool_of_langchain_names_its_call() -> None:
    reading = sample("97dd1408a769f0c9")
    assert (reading.tool, reading.call_id) == ("get_weather", "call_fake6cda04312d1e")
    assert (reading.arguments, reading.result) == ({"city": "Paris"}, "Paris: 21C")


@pytest.mark.parametrize(
    ("called", "arguments"),
    [
        ({"args": ["y"], "kwargs": {}}, {"args": ["y"], "kwargs": {}}),
        ({"args": [], "kwargs": {"city": "Paris"}}, {"city": "Paris"}),
    ],
)
def test_a_decorated_function_was_called_with_what_it_was_called_with(called: Any, arguments: Any) -> None:
    reading = tell(
        {SEEN + "type": "tool", SEEN + "input": json.dumps(called), SEEN + "output": '{"x": 1}'}, name="look"
    )
    assert (reading.tool, reading.arguments, reading.result) == ("look", arguments, {"x": 1})


def test_a_graph_is_asked_in_pairs_and_gives_what_follows_the_question() -> None:
    assert spoken(sample("c1a7aead6c21d541")) == [
        ("user", "What is the weather in Paris?"),
        ("assistant", "I will look at the project first."),
        ("assistant", "call_fake6cda04312d1e"),
        ("tool", "Paris: 21C"),
        ("assistant", "Done. I listed the files, read the README and wrote notes.txt."),
    ]


def test_an_agent_is_named_by_its_observation() -> None:
    assert sample("dc00f52a94af5db1").agent == "weather_agent"
    assert sample("c1a7aead6c21d541").agent is None


def test_whose_trace_it_is() -> None:
    """Notes are JSON texts, a session among them too; release and environment may be the resource's."""
    reading = tell(
        {
            "langfuse.trace.metadata.session_id": '"s-1"',
            "langfuse.trace.metadata.plan": '{"tier": 2}',
            "langfuse.trace.metadata.langgraph_step": "1",
            "langfuse.trace.name": "checkout",
            "langfuse.release": "v7",
            "langfuse.user.id": "u",
            SEEN + "prompt.name": "greeting",
            SEEN + "prompt.version": 3,
        },
        resource={"langfuse.environment": "staging"},
    )
    assert (reading.session_id, reading.user_id) == ("s-1", "u")
    assert reading.metadata == {
        "session_id": "s-1",
        "plan": {"tier": 2},
        "name": "checkout",
        "release": "v7",
        "environment": "staging",
        "prompt": {"name": "greeting", "version": 3},
    }


@pytest.mark.parametrize("value", ["yesterday", '"2026-11-15"', "7", "null", '"0001-01-01T00:00:00Z"'])
def test_a_first_token_at_no_sensible_time_is_not_believed(value: str) -> None:
    assert tell({SEEN + "completion_start_time": value}, start_ns=2**62).first_token_ms is None


KEYS = sorted({key for view in spans("langfuse") for key in view.attributes}) + [
    *("langfuse.trace.input", "langfuse.trace.output", "langfuse.environment", SEEN + "prompt.name"),
    *("langfuse.trace.metadata.session_id", "langfuse.trace.public", "langfuse.user.id"),
]


@pytest.mark.slow
@given(odd_spans(KEYS))
def test_no_span_is_too_odd(view: SpanView) -> None:
    reading = read(view, ())
    assert (reading is None) == (not view.attributes or all(not key.startswith("langfuse.") for key in view.attributes))
    if reading is not None and reading.tools is not None:
        assert isinstance(json.loads(reading.tools), list)

"""OpenInference: flattened messages, the cache within the prompt, and what flattening loses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from otlp_odd import odd_spans
from otlp_samples import senders, spans

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.openinference import read
from dashcam.dialects.otlp.reading import EventView, Reading, Said, SpanView

LANGCHAIN, OPENAI = "openinference-langchain", "openinference-openai-gzip"
QUESTION = {"type": "text", "text": "What is the weather in Paris?"}
CALLED = {"type": "tool-call", "toolName": "get_weather", "input": {"city": "Paris"}}


def tell(attributes: dict[str, Any], **fields: Any) -> Reading:
    reading = read(SpanView(trace_id="1" * 32, span_id="2" * 16, attributes=attributes, **fields), ())
    assert reading is not None
    return reading


def sample(sender: str, span_id: str) -> Reading:
    view = next(view for view in spans(sender) if view.span_id == span_id)
    reading = read(view, ())
    assert reading is not None
    return reading


def roles(messages: tuple[Said, ...] | None) -> list[str]:
    return [message.role for message in messages or ()]


def parts(messages: tuple[Said, ...] | None) -> list[dict[str, Any]]:
    return [part for message in messages or () for part in message.parts]


def test_nothing_is_said_of_spans_of_others() -> None:
    others = [view for sender in senders() if not sender.startswith("openinference") for view in spans(sender)]
    assert others and all(read(view, ()) is None for view in others)


def test_the_kind_of_every_span_of_a_graph() -> None:
    told = [(view.name, reading.kind) for view in spans(LANGCHAIN) if (reading := read(view, ()))]
    assert told == [
        ("ChatOpenAI", "model"),
        ("model", "agent"),
        ("get_weather", "tool"),
        ("tools", "agent"),
        ("ChatOpenAI", "model"),
        ("model", "agent"),
        ("LangGraph", "agent"),
    ]


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("LLM", "model"),
        ("TOOL", "tool"),
        ("AGENT", "agent"),
        ("CHAIN", "agent"),
        ("RETRIEVER", "retrieval"),
        ("RERANKER", "retrieval"),
        ("EMBEDDING", "span"),
        ("GUARDRAIL", "span"),
        ("something new", "span"),
    ],
)
def test_the_kind_follows_from_the_name(named: str, kind: str) -> None:
    assert tell({"openinference.span.kind": named}).kind == kind


def test_a_model_call_of_a_graph_is_told_in_full() -> None:
    reading = sample(LANGCHAIN, "2607dc824b953774")
    assert (reading.session_id, reading.provider, reading.model) == ("sess-lc-1", "openai", "gpt-4o-mini")
    assert roles(reading.input) == ["system", "user", "assistant", "tool"]
    call = parts(reading.input)[3]
    assert call == {**CALLED, "toolCallId": "call_fakeadcc457becf9"}
    assert parts(reading.input)[4] == {
        "type": "tool-result",
        "toolCallId": "call_fakeadcc457becf9",
        "toolName": "get_weather",
        "output": "Paris: 21C, sunny",
        "error": False,
    }
    assert reading.usage == Usage(input=56, output=26, reasoning=8, cache_read=64)
    assert (reading.response_id, reading.stop_reason) == ("chatcmpl-fake26ca4c094a1d", "stop")
    assert reading.settings == {"stream": False, "stop": None}
    assert reading.metadata == {"session_id": "sess-lc-1", "thread_id": "thread-7"}, "without LangGraph's own notes"


def test_the_tools_are_a_json_list_to_the_letter() -> None:
    view = next(view for view in spans(OPENAI) if "llm.tools.0.tool.json_schema" in view.attributes)
    reading = read(view, ())
    assert reading is not None and reading.tools == f"[{view.attributes['llm.tools.0.tool.json_schema']}]"


def test_a_tool_of_langchain_names_its_call_in_what_it_gave() -> None:
    reading = sample(LANGCHAIN, "723eff8f25aca7e1")
    assert (reading.tool, reading.call_id) == ("get_weather", "call_fakeadcc457becf9")
    assert (reading.arguments, reading.result, reading.error) == ("Paris", "Paris: 21C, sunny", None)


def test_a_tool_that_failed_under_langchain_says_so() -> None:
    message = {"type": "tool", "data": {"content": "no such city", "tool_call_id": "c1", "status": "error"}}
    reading = tell({"openinference.span.kind": "TOOL", "tool.name": "t", "output.value": json.dumps(message)})
    assert (reading.call_id, reading.result, reading.error) == ("c1", "no such city", "no such city")


def test_a_graph_gives_what_follows_the_question() -> None:
    reading = sample(LANGCHAIN, "efe7ff9a44f6d72b")
    assert roles(reading.input) == ["user"]
    assert roles(reading.output) == ["assistant", "tool", "assistant"]


def test_calls_of_openai_with_session_user_tags_and_the_time_of_the_first_token() -> None:
    readings = {view.span_id: read(view, ()) for view in spans(OPENAI)}
    assert all(reading is not None and reading.kind == "model" for reading in readings.values())
    streamed = readings["1281c8b8f4320473"]
    assert streamed is not None
    assert (streamed.session_id, streamed.user_id) == ("sess-oi-1", "user-9")
    assert streamed.metadata == {"env": "test", "tags": ["a", "b"]}
    assert streamed.first_token_ms == pytest.approx(53.74765)
    assert streamed.stop_reason == "tool_calls"


def test_a_response_whose_messages_count_from_one() -> None:
    reading = sample(OPENAI, "836d9300ad8a9d68")
    assert parts(reading.input) == [QUESTION]
    assert [part["type"] for part in parts(reading.output)] == ["reasoning", "text", "tool-call"]
    assert reading.usage == Usage(input=476, output=40, reasoning=20, cache_read=1024)
    assert (reading.response_id, reading.stop_reason) == ("resp_fake6cca45eb82484d4fa60b", "tool_calls")


def test_a_call_that_failed_has_the_model_that_was_asked() -> None:
    reading = sample(OPENAI, "5bae172f59f25dec")
    assert (reading.model, reading.output, reading.usage) == ("gpt-4o-mini", None, None)


def test_what_the_cache_took_is_within_the_prompt() -> None:
    start = "llm.token_count."
    reading = tell(
        {
            "openinference.span.kind": "LLM",
            start + "prompt": 2410,
            start + "completion": 47,
            start + "prompt_details.cache_read": 2048,
            start + "prompt_details.cache_write": 350,
            "llm.cost.total": 0.25,
        }
    )
    assert reading.usage == Usage(input=12, output=47, cache_read=2048, cache_write=350)
    assert reading.cost_usd == 0.25


def anthropic(messages: list[dict[str, Any]], answer: dict[str, Any], **flat: Any) -> Reading:
    request = {"model": "claude-sonnet-4-5", "system": "Be brief.", "messages": messages}
    return tell(
        {
            "openinference.span.kind": "LLM",
            "llm.system": "anthropic",
            "llm.invocation_parameters": json.dumps({"model": "claude-sonnet-4-5", "system": "Be brief.", "top_k": 3}),
            "input.value": json.dumps(request),
            "output.value": json.dumps(answer),
            **flat,
        }
    )


def test_blocks_of_anthropic_are_read_from_the_whole_request() -> None:
    """Flattened, what a tool gave would be the words of a user."""
    asked: list[dict[str, Any]] = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "21C"}]},
    ]
    thought = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "It is 21C."}]
    answer = {"id": "msg_1", "type": "message", "role": "assistant", "content": thought, "stop_reason": "end_turn"}
    flat = {f"llm.input_messages.{at}.message.role": each["role"] for at, each in enumerate(asked)}
    reading = anthropic(asked, answer, **flat, **{"llm.input_messages.2.message.content": "21C"})
    assert roles(reading.input) == ["user", "assistant", "tool"]
    assert parts(reading.input)[2]["toolCallId"] == "toolu_1"
    assert [part["type"] for part in parts(reading.output)] == ["reasoning", "text"]
    assert (reading.system, reading.settings) == ("Be brief.", {"top_k": 3})
    assert (reading.response_id, reading.stop_reason) == ("msg_1", "stop")


def test_a_question_outside_of_the_messages_is_not_lost() -> None:
    """OpenAI's agents tell instructions as a message and a question that is one text as the input."""
    reading = tell(
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "Be brief.",
            "input.value": "Weather?",
        }
    )
    assert roles(reading.input) == ["system", "user"]
    assert reading.system is None, "it is among the messages"


def test_pieces_of_a_message_and_its_files() -> None:
    start = "llm.input_messages.0.message."
    block = start + "contents.{}.message_content."
    reading = tell(
        {
            "openinference.span.kind": "LLM",
            start + "role": "user",
            block.format(0) + "type": "text",
            block.format(0) + "text": "What is this?",
            block.format(1) + "type": "image",
            block.format(1) + "image.image.url": "https://example.org/cat.png",
        }
    )
    assert parts(reading.input) == [
        {"type": "text", "text": "What is this?"},
        {"type": "file", "mediaType": "image/*", "url": "https://example.org/cat.png"},
    ]


def test_a_redacted_text_stays_the_text_that_says_so() -> None:
    start = "llm.input_messages.0.message."
    reading = tell({"openinference.span.kind": "LLM", start + "role": "user", start + "content": "__REDACTED__"})
    assert parts(reading.input) == [{"type": "text", "text": "__REDACTED__"}]


@pytest.mark.parametrize(
    "prompts",
    [{"llm.prompts": ["Once upon"]}, {"llm.prompts.0.prompt.text": "Once upon"}, {"input.value": "Once upon"}],
)
def test_a_model_that_completes_text(prompts: dict[str, Any]) -> None:
    reading = tell({"openinference.span.kind": "LLM", "llm.choices.0.completion.text": "a time", **prompts})
    assert parts(reading.input) == [{"type": "text", "text": "Once upon"}]
    assert [(each.role, each.parts[0]["text"]) for each in reading.output or ()] == [("assistant", "a time")]


def test_what_a_search_found() -> None:
    start = "retrieval.documents.0.document."
    reading = tell(
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "cats",
            start + "content": "A cat is a cat.",
            start + "score": 0.5,
            start + "metadata": '{"page": 3}',
        }
    )
    assert reading.arguments == "cats"
    assert reading.result == [{"content": "A cat is a cat.", "score": 0.5, "metadata": {"page": 3}}]


def test_an_agent_has_a_name_and_words_but_a_chain_may_be_handed_anything() -> None:
    agent = {
        "openinference.span.kind": "AGENT",
        "graph.node.id": "helper",
        "input.value": "Hi",
        "output.value": "Hello",
    }
    reading = tell(agent)
    assert (reading.agent, roles(reading.input), roles(reading.output)) == ("helper", ["user"], ["assistant"])
    chain = tell({"openinference.span.kind": "CHAIN", "input.value": "[1, 2]", "output.value": "42"})
    assert (chain.input, chain.output) == (None, None)


KEYS = sorted({key for sender in (LANGCHAIN, OPENAI) for view in spans(sender) for key in view.attributes}) + [
    *("llm.prompts", "llm.choices.0.completion.text", "retrieval.documents.0.document.content", "tool.parameters"),
    *("llm.input_messages.0.message.contents.0.message_content.type", "llm.tools.1.tool.json_schema"),
    *("llm.input_messages.0.message.contents.0.message_content.image.image.url", "llm.cost.total", "tool_call.id"),
]


@pytest.mark.slow
@given(odd_spans(KEYS, events=["First Token Stream Event"]))
def test_no_span_is_too_odd(view: SpanView) -> None:
    reading = read(view, ())
    assert reading == read(view, ()) or "nan" in repr(reading)
    if reading is not None and reading.tools is not None:
        assert isinstance(msgspec.json.decode(reading.tools), list)


def test_a_first_token_before_the_start_is_not_believed() -> None:
    early = EventView("First Token Stream Event", 5, {})
    assert tell({"openinference.span.kind": "LLM"}, start_ns=6, events=[early]).first_token_ms is None

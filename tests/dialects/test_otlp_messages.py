"""Messages of every provider and framework come out as the same parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashcam.dialects.otlp.messages import conversation, said, split_system, system_text
from dashcam.dialects.otlp.reading import Said

CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "get_weather", "input": {"city": "Paris"}}
RESULT = {"type": "tool-result", "toolCallId": "c1", "toolName": None, "output": "21C", "error": False}
NAMED = {**RESULT, "toolName": "get_weather"}
TEXT = {"type": "text", "text": "hi"}
THOUGHT = {"type": "reasoning", "text": "hm"}
ARGUMENTS = '{"city": "Paris"}'

MESSAGES: list[tuple[str, dict[str, Any], str, list[dict[str, Any]]]] = [
    ("OTel text", {"role": "user", "parts": [{"type": "text", "content": "hi"}]}, "user", [TEXT]),
    ("OTel reasoning", {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]}, "assistant", [THOUGHT]),
    ("Pydantic AI thinking", {"role": "assistant", "parts": [{"type": "thinking", "content": "hm"}]}, "assistant", [THOUGHT]),
    (
        "OTel call",
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": ARGUMENTS}]},
        "assistant",
        [CALL],
    ),
    ("OTel response", {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "21C"}]}, "tool", [RESULT]),
    (
        "Pydantic AI result",
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "name": "get_weather", "result": "21C"}]},
        "tool",
        [NAMED],
    ),
    (
        "OTel server tool",
        {"role": "assistant", "parts": [{"type": "server_tool_call", "id": "c1", "name": "get_weather", "server_tool_call": {"city": "Paris"}}]},
        "assistant",
        [CALL],
    ),
    (
        "OTel server tool's answer",
        {"role": "tool", "parts": [{"type": "server_tool_call_response", "id": "c1", "server_tool_call_response": "21C"}]},
        "tool",
        [RESULT],
    ),
    (
        "OTel blob",
        {"role": "user", "parts": [{"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"}]},
        "user",
        [{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}],
    ),
    (
        "OTel uri",
        {"role": "user", "parts": [{"type": "uri", "modality": "image", "uri": "https://x.example/a.png"}]},
        "user",
        [{"type": "file", "mediaType": "image/*", "url": "https://x.example/a.png"}],
    ),
    (
        "OTel file",
        {"role": "user", "parts": [{"type": "file", "modality": "video", "file_id": "f1"}]},
        "user",
        [{"type": "file", "mediaType": "video/*", "url": "file:f1"}],
    ),
    (
        "OTel compaction",
        {"role": "assistant", "parts": [{"type": "compaction", "content": "so far"}]},
        "assistant",
        [{"type": "data-compaction", "data": {"type": "compaction", "content": "so far"}}],
    ),
    (
        "a part that nobody knows",
        {"role": "user", "parts": [{"type": "hologram", "x": 1}]},
        "user",
        [{"type": "data-hologram", "data": {"type": "hologram", "x": 1}}],
    ),
    ("OpenAI text", {"role": "developer", "content": "hi"}, "system", [TEXT]),
    (
        "OpenAI blocks",
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        "user",
        [TEXT, {"type": "file", "mediaType": "image/*", "url": "data:image/png;base64,AA"}],
    ),
    (
        "OpenAI calls",
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": ARGUMENTS}}]},
        "assistant",
        [CALL],
    ),
    ("OpenAI function_call", {"role": "assistant", "function_call": {"name": "f", "arguments": "not JSON"}}, "assistant",
     [{"type": "tool-call", "toolCallId": None, "toolName": "f", "input": "not JSON"}]),
    ("OpenAI tool", {"role": "tool", "tool_call_id": "c1", "content": "21C"}, "tool", [RESULT]),
    ("OpenAI refusal", {"role": "assistant", "content": None, "refusal": "no"}, "assistant", [{"type": "text", "text": "no"}]),
    ("DeepSeek reasoning", {"role": "assistant", "reasoning_content": "hm", "content": "hi"}, "assistant", [THOUGHT, TEXT]),
    ("Responses message", {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}, "assistant", [TEXT]),
    ("Responses call", {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "get_weather", "arguments": ARGUMENTS}, "assistant", [CALL]),
    ("Responses output", {"type": "function_call_output", "call_id": "c1", "output": "21C"}, "tool", [RESULT]),
    ("Responses reasoning", {"type": "reasoning", "id": "rs_1", "content": [], "summary": [{"type": "summary_text", "text": "hm"}]}, "assistant", [THOUGHT]),
    (
        "Anthropic answer",
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Paris"}}]},
        "assistant",
        [THOUGHT, CALL],
    ),
    (
        "Anthropic result",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": [{"type": "text", "text": "21C"}]}]},
        "tool",
        [{**RESULT, "error": True}],
    ),
    (
        "Anthropic result and words",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "21C"}, {"type": "text", "text": "hi"}]},
        "user",
        [RESULT, TEXT],
    ),
    (
        "Anthropic image",
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}]},
        "user",
        [{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA"}],
    ),
    (
        "Anthropic redacted",
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
        "assistant",
        [{"type": "data-redacted_thinking", "data": {"type": "redacted_thinking", "data": "x"}}],
    ),
    (
        "Gemini answer",
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "hi"}, {"functionCall": {"id": "c1", "name": "get_weather", "args": {"city": "Paris"}}, "thoughtSignature": "x"}]},
        "assistant",
        [THOUGHT, TEXT, CALL],
    ),
    (
        "Gemini result",
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "get_weather", "response": {"output": "21C"}}}]},
        "tool",
        [NAMED],
    ),
    (
        "Gemini file",
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA"}}]},
        "user",
        [{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA"}],
    ),
    ("ADK's content in content", {"role": "user", "content": {"role": "user", "parts": [{"text": "hi"}]}}, "user", [TEXT]),
    (
        "Bedrock answer",
        {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "hm"}}}, {"toolUse": {"toolUseId": "c1", "name": "get_weather", "input": {"city": "Paris"}}}]},
        "assistant",
        [THOUGHT, CALL],
    ),
    ("Bedrock result", {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"text": "21C"}]}}]}, "tool", [RESULT]),
    (
        "AI SDK answer",
        {"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}, {"type": "tool-call", "toolCallId": "c1", "toolName": "get_weather", "input": {"city": "Paris"}}]},
        "assistant",
        [THOUGHT, CALL],
    ),
    (
        "AI SDK 4 call",
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "get_weather", "args": {"city": "Paris"}}]},
        "assistant",
        [CALL],
    ),
    (
        "AI SDK result",
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "get_weather", "output": {"type": "text", "value": "21C"}}]},
        "tool",
        [NAMED],
    ),
    (
        "AI SDK failure",
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "get_weather", "output": {"type": "error-text", "value": "21C"}}]},
        "tool",
        [{**NAMED, "error": True}],
    ),
    (
        "AI SDK page",
        {"role": "assistant", "parts": [{"type": "tool-get_weather", "toolCallId": "c1", "state": "output-available", "input": {"city": "Paris"}, "output": "21C"}]},
        "assistant",
        [CALL, NAMED],
    ),
    (
        "LangChain constructor",
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "hi"}},
        "user",
        [TEXT],
    ),
    (
        "LangChain answer",
        {"type": "ai", "data": {"content": "", "tool_calls": [{"name": "get_weather", "args": {"city": "Paris"}, "id": "c1", "type": "tool_call"}]}},
        "assistant",
        [CALL],
    ),
    ("LangChain tool", {"type": "tool", "data": {"content": "21C", "tool_call_id": "c1", "name": "get_weather", "status": "success"}}, "tool", [NAMED]),
    ("a choice", {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}, "assistant", [TEXT]),
    ("AI SDK 4 page", {"role": "user", "content": "hi", "parts": [{"type": "text", "text": "hi"}]}, "user", [TEXT]),
    ("a message whose content was not to be told", {"role": "user"}, "user", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "role", "parts"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES]
)
def test_a_message_of_any_dialect_gives_the_same_parts(message: dict[str, Any], role: str, parts: list[Any]) -> None:
    told = said(None, message, "user")
    assert (told.role, list(told.parts)) == (role, parts)
    assert json.loads(told.raw) == message


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_slices_of_a_json_text_rejoin_to_it(separators: tuple[str, str]) -> None:
    text = json.dumps([case[1] for case in MESSAGES], separators=separators)
    told = conversation(text)
    assert told is not None and len(told) == len(MESSAGES)
    assert b"[" + b",".join(message.raw for message in told) + b"]" == text.encode()


def test_a_whole_request_is_read_by_its_messages() -> None:
    """Who records requests as they were sent has model and tools around the messages."""
    text = '{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    assert conversation(text) == (Said(role="user", parts=(TEXT,), raw=b'{"role":"user","content":"hi"}'),)


def test_plain_text_is_one_message_of_the_role_that_it_stands_for() -> None:
    told = conversation("hi", "assistant")
    assert told == (Said(role="assistant", parts=(TEXT,), raw=b'{"content":"hi","role":"assistant"}'),)
    batch = conversation([["hi", {"role": "user", "content": "hi"}]])
    assert batch is not None and [message.parts for message in batch] == [(TEXT,), (TEXT,)]


@pytest.mark.parametrize("nothing", [None, "", "  ", "[]", "{}", [], {}, 5, b""])
def test_no_messages_are_none(nothing: Any) -> None:
    assert conversation(nothing) is None


def test_records_of_a_tool_are_not_taken_for_text() -> None:
    """A list that a tool gave stays a list, unless it is made of blocks of text alone."""
    for output in (["a", "b"], [{"text": "a", "score": 1}], [{"type": "image", "data": "x"}], {"a": 1}):
        told = said(None, {"role": "tool", "tool_call_id": "c1", "content": output}, "user")
        assert told.parts[0]["output"] == output


@pytest.mark.parametrize(
    "value",
    [
        "Be kind.\n\nBe brief.",
        '"Be kind.\\n\\nBe brief."',
        '[{"type":"text","content":"Be kind."},{"type":"text","content":"Be brief."}]',
        ["Be kind.", {"type": "text", "text": "Be brief."}],
        {"role": "system", "parts": [{"text": "Be kind."}, {"text": "Be brief."}]},
        [{"role": "system", "content": "Be kind."}, {"role": "system", "content": "Be brief."}],
    ],
)
def test_system_instructions_of_any_form_are_one_text(value: Any) -> None:
    assert system_text(value) == "Be kind.\n\nBe brief."


def test_leading_system_messages_are_split_off() -> None:
    told = conversation([{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, "hi"])
    assert told is not None
    assert split_system(told) == ("a\n\nb", told[2:])
    assert split_system(told[2:]) == (None, told[2:])
    assert system_text(None) is None


KEYS = sorted({key for case in MESSAGES for key in case[1]} | {"type", "text", "args", "function", "source", "summary"})
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["text", "tool", "ai", "file"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(JSON, st.booleans())
def test_whatever_is_said_gives_messages(value: Any, as_text: bool) -> None:
    told = conversation(json.dumps(value) if as_text else value)
    for message in told or ():
        assert message.role in ("system", "user", "assistant", "tool")
        assert all(isinstance(part["type"], str) for part in message.parts)
        json.loads(message.raw)
    system_text(value)
    split_system(told or ())


@pytest.mark.parametrize(
    "value", ["[" * 5000 + "]" * 5000, '{"content":' * 5000, '"\\ud800"', '[{"content":"\\ud800"}]', "\ud800"]
)
def test_hostile_texts_are_messages_too(value: str) -> None:
    assert conversation(value) is not None
    assert conversation([{"role": "user", "content": {"x": 10**5000}}, {"role": "user", "content": b"\xff"}])

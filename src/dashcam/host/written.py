"""What is new in a replay, in the form that the session's messages have: answers, and the outcomes of tool calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart

from dashcam.record import wire as ai_sdk
from dashcam.record.pydantic_messages import WIRE as PYDANTIC_AI
from dashcam.record.pydantic_messages import bodies_of, jsonable
from dashcam.views.replay import Inputs

ANTHROPIC, OPENAI = "anthropic", "openai"
_OF_ANTHROPIC = (b'"tool_use"', b'"tool_result"', b'"thinking"')

Outcome = tuple[dict[str, Any], ToolReturnPart]  # as a part of the chat, and as the model gets it


def style_of(inputs: Inputs) -> str:
    """Whose form the messages have; where the host only said that they are as given, by how they look."""
    if inputs.wire in (PYDANTIC_AI, ai_sdk.WIRE):
        return inputs.wire
    seen = any(mark in body for body in inputs.messages for mark in _OF_ANTHROPIC)
    offered = '"input_schema"' in (inputs.tool_catalog or "")
    return ANTHROPIC if seen or offered or ANTHROPIC in inputs.model.provider_id else OPENAI


def said(style: str, response: ModelResponse) -> Any:
    """An answer as a message."""
    if style == PYDANTIC_AI:
        return bodies_of([response])[0]
    parts = list(chat_parts(response))
    if style == ai_sdk.WIRE:
        return ai_sdk.assistant_message(parts)
    texts = [{"type": "text", "text": part["text"]} for part in parts if part["type"] == "text"]
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    if style == ANTHROPIC:
        used = [{"type": "tool_use", "id": c.tool_call_id, "name": c.tool_name, "input": input_of(c)} for c in calls]
        return {"role": "assistant", "content": [*texts, *used]}
    text = "\n\n".join(part["text"] for part in texts)
    return {
        "role": "assistant",
        "content": text or None,
        **({"tool_calls": [*map(_openai_call, calls)]} if calls else {}),
    }


def answered(style: str, outcomes: Sequence[Outcome]) -> list[Any]:
    """The outcomes of tool calls as one message, or several."""
    if style == PYDANTIC_AI:
        return bodies_of([ModelRequest([returned for _, returned in outcomes])])
    if style == ai_sdk.WIRE:
        return [ai_sdk.tool_message(part for part, _ in outcomes)]
    if style == ANTHROPIC:
        return [{"role": "user", "content": [_anthropic_result(returned) for _, returned in outcomes]}]
    return [{"role": "tool", "tool_call_id": each.tool_call_id, "content": _text(each.content)} for _, each in outcomes]


def chat_parts(response: ModelResponse) -> Iterator[dict[str, Any]]:
    """What of an answer a chat shows, as parts of it."""
    for part in response.parts:
        if isinstance(part, TextPart | ThinkingPart):
            yield {"type": "text" if isinstance(part, TextPart) else "reasoning", "text": part.content}
        elif isinstance(part, ToolCallPart):
            yield part_of_call(part)


def part_of_call(call: ToolCallPart) -> dict[str, Any]:
    """A tool call as a part of a chat."""
    return {"type": f"tool-{call.tool_name}", "toolCallId": call.tool_call_id, "input": input_of(call)}


def input_of(call: ToolCallPart) -> Any:
    """The arguments of a call as JSON; what isn't an object as the text that it is."""
    try:
        return jsonable(call.args_as_dict(raise_if_invalid=True))
    except (ValueError, AssertionError):
        return jsonable(call.args)


def _openai_call(call: ToolCallPart) -> Mapping[str, Any]:
    function = {"name": call.tool_name, "arguments": call.args_as_json_str()}
    return {"id": call.tool_call_id, "type": "function", "function": function}


def _anthropic_result(returned: ToolReturnPart) -> dict[str, Any]:
    told = {"type": "tool_result", "tool_use_id": returned.tool_call_id, "content": _text(returned.content)}
    return {**told, "is_error": True} if returned.outcome == "failed" else told


def _text(content: Any) -> str:
    return content if isinstance(content, str) else msgspec.json.encode(jsonable(content)).decode()

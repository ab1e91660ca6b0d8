"""A conversation as a model is sent it, in the form of the AI SDK's ModelMessages, made from parts of a chat.

For recording by hand, where nobody hands over the exact request. What is told whole is kept whole instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dashcam.contracts.chat import FINAL_STATES, tool_name_of

WIRE = "ai-sdk"


def user_message(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": [content for part in parts if (content := _given(part))]}


def assistant_message(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What the model said in one step: text, reasoning and tool calls, without what became of those."""
    return {"role": "assistant", "content": [content for part in parts if (content := _said(part))]}


def tool_message(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What became of tool calls, as the model gets to read it."""
    return {"role": "tool", "content": [_result(part) for part in parts]}


def steps(parts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """An answer as messages, one for each request that it took: what the model said, then what its tools answered."""
    said: list[Mapping[str, Any]] = []
    for part in (*parts, {"type": "step-start"}):
        if part.get("type") != "step-start":
            said.append(part)
            continue
        message = assistant_message(said)
        if message["content"]:
            yield message
        outcomes = [each for each in said if each.get("toolCallId") is not None and has_outcome(each)]
        if outcomes:
            yield tool_message(outcomes)
        said = []


def has_outcome(part: Mapping[str, Any]) -> bool:
    return part.get("state") in FINAL_STATES and not part.get("preliminary")


def _given(part: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part.get("text", "")}
    if kind == "file":
        return {"type": "file", "data": part.get("url"), **_named(part, "mediaType", "filename")}
    if isinstance(kind, str) and kind.startswith("data-"):
        return {"type": kind, "data": part.get("data")}
    return None


def _said(part: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        return {"type": kind, "text": part.get("text", ""), **_options(part, "providerMetadata")}
    if kind == "file":
        return {"type": "file", "data": part.get("url"), **_named(part, "mediaType", "filename")}
    tool = tool_name_of(str(kind), dict(part))
    if tool is None:
        return None
    call = {"type": "tool-call", "toolCallId": part.get("toolCallId"), "toolName": tool, "input": part.get("input")}
    return {**call, **_named(part, "providerExecuted"), **_options(part, "callProviderMetadata")}


def _result(part: Mapping[str, Any]) -> dict[str, Any]:
    state = part.get("state")
    output: dict[str, Any]
    if state == "output-error":
        output = {"type": "error-text", "value": part.get("errorText", "")}
    elif state == "output-denied":
        approval = part.get("approval")
        reason = approval.get("reason") if isinstance(approval, Mapping) else None
        output = {"type": "execution-denied", **({"reason": reason} if reason else {})}
    elif isinstance(part.get("output"), str):
        output = {"type": "text", "value": part["output"]}
    else:
        output = {"type": "json", "value": part.get("output")}
    tool = tool_name_of(str(part.get("type")), dict(part))
    return {"type": "tool-result", "toolCallId": part.get("toolCallId"), "toolName": tool, "output": output}


def _named(part: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: part[name] for name in names if part.get(name) is not None}


def _options(part: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a provider wants back with the next request: signatures, ids of its own."""
    return {"providerOptions": part[name]} if part.get(name) else {}

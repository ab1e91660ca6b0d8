"""The AI SDK up to 6 (`ai.*`, scope `ai`). From 7 on it speaks OpenTelemetry's names; only its steps are told here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.frameworks import amount, catalog
from dashcam.dialects.otlp.messages import conversation, system_text
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, Said, SpanView
from dashcam.dialects.otlp.values import (
    count,
    json_of,
    name,
    session_of,
    stop_reason,
    structure_of,
    text,
    usage_within,
    user_of,
    value_of,
)  # fmt: skip

_MODEL_CALLS = (".doGenerate", ".doStream")
_SETTINGS, _METADATA = "ai.settings.", "ai.telemetry.metadata."
_STEP = re.compile(r"step \d+")
_STEPS_SCOPE = "gen_ai"


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    told = view.attributes
    operation = text(told, "ai.operationId")
    if operation is None:
        is_step = view.scope == _STEPS_SCOPE and _STEP.fullmatch(view.name) is not None
        return Reading(kind="agent", dialect="vercel") if is_step else None
    kind = _kind(operation)
    whose: dict[str, Any] = {
        "kind": kind,
        "dialect": "vercel",
        "session_id": session_of(told),
        "user_id": user_of(told),
        "agent": text(told, "ai.telemetry.functionId"),
        "metadata": _under(told, _METADATA),
    }
    return Reading(**whose, **(_tool(told) if kind == "tool" else _call(told)))


def _kind(operation: str) -> Kind:
    """The outer spans sum up the model calls within."""
    if operation == "ai.toolCall":
        return "tool"
    if "mbed" in operation or operation.startswith("ai.rerank"):
        return "span"
    return "model" if operation.endswith(_MODEL_CALLS) else "agent"


def _tool(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool": text(told, "ai.toolCall.name"),
        "call_id": name(told, "ai.toolCall.id"),
        "arguments": value_of(told.get("ai.toolCall.args", told.get("ai.toolCall.input"))),
        "result": value_of(told.get("ai.toolCall.result", told.get("ai.toolCall.output"))),
    }


def _call(told: Mapping[str, Any]) -> dict[str, Any]:
    prompt = json_of(told.get("ai.prompt"))
    prompt = prompt if isinstance(prompt, dict) else {}
    asked = conversation(told.get("ai.prompt.messages")) or conversation(prompt.get("messages") or prompt.get("prompt"))
    provider = text(told, "ai.model.provider")
    tools = told.get("ai.prompt.tools")
    return {
        "provider": provider.partition(".")[0] if provider else None,  # `openai.responses`: whose, and which API
        "model": text(told, "ai.response.model", "ai.model.id"),
        "settings": _settings(told),
        "system": system_text(prompt.get("system")),
        "tools": catalog(tools if isinstance(tools, list) else []),
        "input": asked,
        "output": _answer(told),
        "usage": _usage(told),
        "response_id": name(told, "ai.response.id"),
        "stop_reason": stop_reason(text(told, "ai.response.finishReason", "ai.finishReason")),
        "first_token_ms": amount(told, "ai.response.msToFirstChunk", "ai.stream.msToFirstChunk"),
    }


def _answer(told: Mapping[str, Any]) -> tuple[Said, ...] | None:
    """The answer, told in pieces: one message of the SDK's own."""
    parts: list[Any] = []
    if thought := text(told, "ai.response.reasoning"):
        parts.append({"type": "reasoning", "text": thought})
    if words := text(told, "ai.response.text", "ai.result.text", "ai.response.object", "ai.result.object"):
        parts.append({"type": "text", "text": words})
    for key, kind in (("ai.response.toolCalls", "tool-call"), ("ai.response.files", "file")):
        pieces = structure_of(told.get(key))
        parts += [
            {**each, "type": kind} for each in (pieces if isinstance(pieces, list) else ()) if isinstance(each, dict)
        ]
    return conversation([{"role": "assistant", "content": parts}]) if parts else None


def _usage(told: Mapping[str, Any]) -> Usage | None:
    """The names of 5 and 6 say what is within what; 4 told two sums."""
    start = "ai.usage."
    sent, answered = start + "inputTokenDetails.", start + "outputTokenDetails."
    return usage_within(
        count(told, start + "inputTokens", start + "promptTokens"),
        count(told, start + "outputTokens", start + "completionTokens"),
        read=count(told, start + "cachedInputTokens", sent + "cacheReadTokens"),
        write=count(told, sent + "cacheWriteTokens"),
        reasoning=count(told, start + "reasoningTokens", answered + "reasoningTokens"),
    )


def _settings(told: Mapping[str, Any]) -> dict[str, Any] | None:
    settings = _under(told, _SETTINGS) or {}
    choice = told.get("ai.prompt.toolChoice")
    return settings | ({} if choice is None else {"toolChoice": structure_of(choice)}) or None


def _under(told: Mapping[str, Any], prefix: str) -> dict[str, Any] | None:
    return {key.removeprefix(prefix): value for key, value in told.items() if key.startswith(prefix)} or None

"""Langfuse SDKs: `langfuse.observation.*` tells what a span is, `langfuse.trace.*` whose trace it belongs to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.frameworks import amount, called_with, catalog, given, notes_of, state_messages
from dashcam.dialects.otlp.messages import conversation
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, Role, Said, SpanView
from dashcam.dialects.otlp.values import (
    count,
    json_of,
    name,
    session_of,
    stop_reason,
    structure_of,
    text,
    user_of,
)  # fmt: skip
from dashcam.dialects.usage import usage_from

_OWN = "langfuse."
_SEEN, _TRACE = "langfuse.observation.", "langfuse.trace."
_NOTES = (_TRACE + "metadata.", _SEEN + "metadata.")  # each value a JSON text
_KINDS: dict[str, Kind] = {
    "generation": "model",
    "tool": "tool",
    "agent": "agent",
    "chain": "agent",
    "retriever": "retrieval",
}
# Langfuse's own names for what it counts apart; whatever else begins like these is counted within them.
_READ = ("cache_read_input_tokens", "input_cached_tokens", "input_cache_read", "cached_tokens")
_WRITTEN = ("cache_creation_input_tokens", "input_cache_creation", "input_cache_write")
_THOUGHT = ("output_reasoning_tokens", "output_reasoning", "reasoning_tokens", "reasoning")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    if not any(key.startswith(_OWN) for key in view.attributes):
        return None
    told = _decoded(view.attributes)
    named = text(told, _SEEN + "type")
    kind = _KINDS.get(named.lower(), "span") if named else None
    whose: dict[str, Any] = {
        "kind": kind,
        "dialect": "langfuse",
        "session_id": session_of(told),
        "user_id": user_of(told),
        "agent": view.name or None if named == "agent" else None,
        "metadata": _metadata({**view.resource, **told}),
    }
    error = _error(told)
    if kind in ("tool", "retrieval"):
        return Reading(**whose, **_run(view, told, kind, error))
    return Reading(**whose, error=error, **_call(view, told, kind))


def _decoded(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes, with notes as they were before the SDK wrote each as JSON."""
    return {
        key: value if not key.startswith(_NOTES) or (inner := json_of(value)) is None else inner
        for key, value in attributes.items()
    }


def _run(view: SpanView, told: Mapping[str, Any], kind: Kind, error: str | None) -> dict[str, Any]:
    result = given(told.get(_SEEN + "output"))
    return {
        "tool": view.name or None if kind == "tool" else None,
        "call_id": name(told, _SEEN + "metadata.tool_call_id") or result.call_id,
        "arguments": called_with(told.get(_SEEN + "input")),
        "result": result.result,
        "error": error or result.error,
    }


def _call(view: SpanView, told: Mapping[str, Any], kind: Kind | None) -> dict[str, Any]:
    asked = told.get(_SEEN + "input", told.get(_TRACE + "input"))
    answered = told.get(_SEEN + "output", told.get(_TRACE + "output"))
    settings = json_of(told.get(_SEEN + "model.parameters"))
    request, tools = _request(asked)
    return {
        "model": text(told, _SEEN + "model.name"),
        "settings": settings if isinstance(settings, dict) and settings else None,
        "tools": tools,
        "input": _messages(request, "user", kind),
        "output": _messages(answered, "assistant", kind),
        "usage": _usage(json_of(told.get(_SEEN + "usage_details"))),
        "cost_usd": _cost(json_of(told.get(_SEEN + "cost_details"))),
        "stop_reason": stop_reason(told.get(_SEEN + "metadata.finish_reason")),
        "first_token_ms": _first_token(view, told.get(_SEEN + "completion_start_time")),
    }


def _request(asked: Any) -> tuple[Any, str | None]:
    """What was asked, and the tools that stand beside the messages, or, from LangChain, among them."""
    decoded = json_of(asked)
    if isinstance(decoded, dict):
        tools = decoded.get("tools")
        return asked, catalog(tools) if isinstance(tools, list) else None
    if isinstance(decoded, list):
        tools = [each["content"] for each in decoded if _is_definition(each)]
        return ([each for each in decoded if not _is_definition(each)], catalog(tools)) if tools else (asked, None)
    return asked, None


def _is_definition(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "tool" else None
    return isinstance(content, dict) and content.get("type") == "function" and isinstance(content.get("function"), dict)


def _messages(value: Any, role: Role, kind: Kind | None) -> tuple[Said, ...] | None:
    """All that a model was sent or gave; of an agent only what are messages."""
    if kind == "model":
        return conversation(value, role)
    told = called_with(value) if kind == "agent" else None
    return conversation(told, role) if isinstance(told, str) else state_messages(told, role)


def _usage(details: Any) -> Usage | None:
    """Langfuse counts each part apart, unless the total says that `input` and `output` are all there is."""
    if not isinstance(details, dict) or not {"input", "output"} & details.keys():
        return usage_from(details)
    read, written = count(details, *_READ) or 0, count(details, *_WRITTEN) or 0
    thought = count(details, *_THOUGHT) or 0
    asked, answered = count(details, "input") or 0, count(details, "output") or 0
    if count(details, "total") == asked + answered:
        asked, answered = max(0, asked - read - written), max(0, answered - thought)
    return Usage(input=asked, output=answered, reasoning=thought, cache_read=read, cache_write=written)


def _cost(details: Any) -> float | None:
    """The total, else the sum of what its parts cost."""
    if not isinstance(details, dict):
        return None
    parts = [cost for key in details if (cost := amount(details, key)) is not None]
    total = amount(details, "total")
    cost = sum(parts) if total is None and parts else total
    return cost if cost is not None and math.isfinite(cost) else None


def _first_token(view: SpanView, value: Any) -> float | None:
    told = json_of(value) if isinstance(value, str) and value.startswith('"') else value
    try:
        at = datetime.fromisoformat(told)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        waited = (at - _EPOCH).total_seconds() * 1e3 - view.start_ns / 1e6
    except (TypeError, ValueError, OverflowError):
        return None
    return round(waited, 3) if waited >= 0 else None


def _error(told: Mapping[str, Any]) -> str | None:
    if text(told, _SEEN + "level") != "ERROR":
        return None
    return text(told, _SEEN + "status_message") or "error"


def _metadata(told: Mapping[str, Any]) -> dict[str, Any] | None:
    start = _NOTES[0]
    found = notes_of({key.removeprefix(start): value for key, value in told.items() if key.startswith(start)})
    for key in ("environment", "release", "version", "trace.name", "trace.tags", "trace.public"):
        if (value := told.get(_OWN + key)) is not None:
            found[key.removeprefix("trace.")] = structure_of(value)
    prompt = {key: value for key in ("name", "version") if (value := told.get(f"{_SEEN}prompt.{key}")) is not None}
    return found | ({"prompt": prompt} if prompt else {}) or None

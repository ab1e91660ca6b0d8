"""Traceloop's OpenLLMetry: `traceloop.*` around functions, and messages flattened into `gen_ai.prompt.<N>.*`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashcam.dialects.otlp.frameworks import Given, called_with, catalog, given, state_messages
from dashcam.dialects.otlp.messages import conversation
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, Role, Said, SpanView
from dashcam.dialects.otlp.values import (
    json_of,
    listed,
    name,
    session_of,
    stop_reason,
    structure_of,
    text,
    user_of,
)  # fmt: skip

_OWN = (
    *("traceloop.", "llm.request.type", "llm.request.functions.", "llm.usage."),
    *("gen_ai.prompt.0.", "gen_ai.completion.0."),
)
_PROPERTIES = "traceloop.association.properties."
_KINDS: dict[str, Kind] = {"workflow": "agent", "agent": "agent", "task": "agent", "tool": "tool", "llm": "model"}
_TYPES: dict[str, Kind] = {"chat": "model", "completion": "model", "embedding": "span", "rerank": "retrieval"}


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    told = view.attributes
    if not any(key.startswith(_OWN) for key in told):
        return None
    kind = _kind(told)
    whose: dict[str, Any] = {
        "kind": kind,
        "dialect": "traceloop",
        "session_id": session_of(told),
        "user_id": user_of(told),
        "agent": text(told, "traceloop.entity.name") if text(told, "traceloop.span.kind") == "agent" else None,
        "metadata": _metadata(told),
    }
    return Reading(**whose, **(_tool(told) if kind == "tool" else _call(told)))


def _kind(told: Mapping[str, Any]) -> Kind | None:
    asked = text(told, "llm.request.type")
    named = text(told, "traceloop.span.kind")
    return _TYPES.get(asked or "") or _KINDS.get(named or "")


def _tool(told: Mapping[str, Any]) -> dict[str, Any]:
    result = _given(told.get("traceloop.entity.output"))
    return {
        "tool": text(told, "gen_ai.tool.name", "traceloop.entity.name"),
        "call_id": name(told, "gen_ai.tool.call.id") or result.call_id,
        "arguments": _arguments(told.get("traceloop.entity.input")),
        "result": result.result,
        "error": result.error,
    }


def _arguments(value: Any) -> Any:
    """Under LangChain the arguments stand among what else its callback was told."""
    told = called_with(value)
    if isinstance(told, dict) and "input_str" in told:
        return told.get("inputs") or structure_of(told["input_str"])
    return told


def _given(value: Any) -> Given:
    """Everything is written as JSON, a text too."""
    decoded = json_of(value)
    told = value if decoded is None and value != "null" else decoded
    if isinstance(told, dict) and "output" in told and told.keys() <= {"output", "kwargs"}:
        told = told["output"]
    return given(told)


def _call(told: Mapping[str, Any]) -> dict[str, Any]:
    answers = listed(told, "gen_ai.completion")
    return {
        "tools": catalog(_definition(each) for each in listed(told, "llm.request.functions")),
        "input": _messages(listed(told, "gen_ai.prompt"), "user") or _state(told, "input", "user"),
        "output": _messages(answers, "assistant") or _state(told, "output", "assistant"),
        "stop_reason": stop_reason([each.get("finish_reason") for each in answers]),
    }


def _messages(entries: Sequence[Mapping[str, Any]], role: Role) -> tuple[Said, ...] | None:
    return conversation([_message(each) for each in entries], role)


def _state(told: Mapping[str, Any], side: str, role: Role) -> tuple[Said, ...] | None:
    """The messages that LangChain's graphs and chains pass on."""
    state = json_of(told.get(f"traceloop.entity.{side}"))
    return state_messages(state.get(f"{side}s") if isinstance(state, dict) else None, role)


def _message(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A flattened message as OpenAI writes it."""
    message = {key: flat[key] for key in ("role", "tool_call_id", "name", "reasoning", "refusal") if key in flat}
    blocks = json_of(flat.get("content"))
    typed = isinstance(blocks, list) and blocks and all(isinstance(each, dict) and "type" in each for each in blocks)
    message["content"] = blocks if typed else flat.get("content")
    calls = [_tool_call(each) for each in listed(flat, "tool_calls")]
    if calls:
        message["tool_calls"] = calls
    elif "function_call.name" in flat:
        message["function_call"] = {key: flat.get(f"function_call.{key}") for key in ("name", "arguments")}
    return message


def _tool_call(flat: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": flat.get("name"), "arguments": flat.get("arguments")}
    return {"id": flat.get("id"), "type": "function", "function": function}


def _definition(flat: Mapping[str, Any]) -> dict[str, Any]:
    return {key: structure_of(value) for key, value in flat.items() if key}


def _metadata(told: Mapping[str, Any]) -> dict[str, Any] | None:
    found = {key.removeprefix(_PROPERTIES): value for key, value in told.items() if key.startswith(_PROPERTIES)}
    workflow = text(told, "traceloop.workflow.name")
    return found | ({"workflow": workflow} if workflow else {}) or None

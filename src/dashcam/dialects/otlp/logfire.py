"""Logfire and Pydantic AI: what their spans say beside OpenTelemetry's names, and spans that are still running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashcam.dialects.otlp.frameworks import catalog
from dashcam.dialects.otlp.messages import conversation, system_text
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, Said, SpanView
from dashcam.dialects.otlp.values import (
    integer,
    json_of,
    name,
    session_of,
    stop_reason,
    structure_of,
    text,
    user_of,
)  # fmt: skip
from dashcam.dialects.usage import usage_from

_SCOPES = ("logfire", "pydantic-ai")
_OWN = ("logfire.", "pydantic_ai.")
_OPENAI_AGENTS = "logfire.openai_agents"
_TEMPLATES: dict[str, Kind] = {
    "Function: ": "tool",
    **dict.fromkeys(("Agent run: ", "OpenAI Agents trace: ", "Task: ", "Turn "), "agent"),
    **dict.fromkeys(("Responses API", "Chat completion "), "model"),
}
_CALLS = ("function_call", "custom_tool_call", "mcp_call")
_ERROR = 17  # from this level on something went wrong
_TOLD_ELSEWHERE = frozenset(("model", "messages", "tools", "system", "prompt", "input"))
_ANSWERS = ("gen_ai.output.messages", "gen_ai.response.id", "response_data")
_SPEAKS = ("chat", "text_completion")


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    told = view.attributes
    if not view.scope.startswith(_SCOPES) and not any(key.startswith(_OWN) for key in told):
        return None
    kind = _kind(view)
    return Reading(
        kind=kind,
        dialect="logfire",
        session_id=session_of(told) or name(told, "group_id"),
        user_id=user_of(told),
        agent=name(told, "agent_name", *(("name",) if _is_agent_run(told) else ())),
        metadata=_metadata(told),
        error=_error(view),
        **(_tool(told) if kind == "tool" else _call(told)),
        **_pending(view),
    )


def _is_agent_run(told: Mapping[str, Any]) -> bool:
    """Whether a name is an agent's: workflows and tasks of the OpenAI Agents SDK have names, too."""
    return (text(told, "logfire.msg_template") or "").startswith("Agent run: ")


def _kind(view: SpanView) -> Kind | None:
    told = view.attributes
    if view.scope == _OPENAI_AGENTS:
        template = text(told, "logfire.msg_template") or ""
        found = next((kind for start, kind in _TEMPLATES.items() if template.startswith(start)), None)
        return found or ("model" if "events" in told or "request_data" in told else None)
    if "tool_arguments" in told or "tool_response" in told:
        return "tool"
    if "pydantic_ai.all_messages" in told or "all_messages_events" in told or view.name == "agent run":
        return "agent"
    return _kind_of_request(view)


def _kind_of_request(view: SpanView) -> Kind | None:
    """A request to a provider's SDK. Of one that streams, a log beside it tells the answer and all that was asked."""
    told = view.attributes
    request = json_of(told.get("request_data"))
    if not view.scope.startswith("logfire.") or not isinstance(request, dict):
        return None
    if "messages" not in request and text(told, "gen_ai.operation.name") not in _SPEAKS:
        return None
    done = text(told, "logfire.span_type") == "span" and view.status != "error" and _error(view) is None
    _, answered = _events(told) or ((), ())
    streams = done and not answered and not any(key in told for key in _ANSWERS)
    return "agent" if streams else "model"


def _tool(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "tool": text(told, "gen_ai.tool.name", "name"),
        "call_id": name(told, "gen_ai.tool.call.id"),
        "arguments": structure_of(told.get("tool_arguments", told.get("input"))),
        "result": structure_of(told.get("tool_response", told.get("output"))),
    }


def _call(told: Mapping[str, Any]) -> dict[str, Any]:
    request, response, whole = (_object(told.get(key)) for key in ("request_data", "response_data", "response"))
    asked, answered = _history(told) or _events(told) or _exchange(request, response)
    return {
        "model": text(told, "gen_ai.response.model", "model_name") or text(request, "model"),
        "settings": _settings(request),
        "system": system_text(request.get("system")),
        "tools": _tools(told, request or whole),
        "input": asked or None,
        "output": answered or conversation(told.get("final_result"), "assistant"),
        "usage": usage_from(json_of(told.get("gen_ai.usage.raw"))) or usage_from(response.get("usage")),
        "response_id": name(told, "response_id"),
        "stop_reason": _stop_reason(whole),
    }


def _object(value: Any) -> dict[str, Any]:
    decoded = json_of(value)
    return decoded if isinstance(decoded, dict) else {}


def _stop_reason(response: Mapping[str, Any]) -> str | None:
    """OpenAI's Responses say that they are complete, whatever follows."""
    items = response.get("output")
    calls = isinstance(items, list) and any(isinstance(each, dict) and each.get("type") in _CALLS for each in items)
    return "tool_calls" if calls else stop_reason(response.get("status"))


def _settings(request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of a whole request; newer versions leave a rest of it, and tell settings by OpenTelemetry's names."""
    if "messages" not in request:
        return None
    return {key: value for key, value in request.items() if key not in _TOLD_ELSEWHERE} or None


_Exchange = tuple[tuple[Said, ...], tuple[Said, ...]]


def _history(told: Mapping[str, Any]) -> _Exchange | None:
    """All messages of an agent's run: what it was given, and from the first new answer on what it said and did."""
    messages = conversation(told.get("pydantic_ai.all_messages")) or _spoken(told.get("all_messages_events"))
    if not messages:
        return None
    new = max(0, integer(told, "pydantic_ai.new_message_index") or 0)
    first = next((at for at in range(new, len(messages)) if messages[at].role == "assistant"), len(messages))
    return messages[:first], messages[first:]


def _events(told: Mapping[str, Any]) -> _Exchange | None:
    """Events as one JSON list: choices are the answer, or what the assistant said last."""
    messages = _spoken(told.get("events"))
    return _split(messages) if messages else None


def _spoken(value: Any) -> tuple[Said, ...] | None:
    events = structure_of(value)
    if not isinstance(events, list):
        return None
    return conversation([_message(each) for each in events if isinstance(each, dict)])


def _message(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as the message that it tells: `gen_ai.user.message` has it in itself, `gen_ai.choice` within."""
    inner = event.get("message")
    if isinstance(inner, dict):
        return {"role": "assistant", **inner}
    if "message" in event:
        return {"role": "assistant", "content": inner}
    if isinstance(event.get("data"), dict):  # an item that Logfire has no words for: a model's thoughts, say
        return dict(event["data"])
    role = (text(event, "event.name") or "").removeprefix("gen_ai.").removesuffix(".message")
    kept = {key: value for key, value in event.items() if key not in ("event.name", "gen_ai.message.index")}
    return {"role": role, **kept}


def _exchange(request: Mapping[str, Any], response: Mapping[str, Any]) -> _Exchange:
    """A provider's request and what it answered. The OpenAI Agents SDK has the answer among the messages."""
    sent = conversation(request.get("messages")) or conversation(request.get("prompt")) or ()
    answer = next((response[key] for key in ("message", "text", "combined_chunk_content") if response.get(key)), None)
    if answer is None and not response:
        return _split(sent)
    return sent, conversation(answer, "assistant") or ()


def _split(messages: tuple[Said, ...]) -> _Exchange:
    """What came before the assistant's last words, and those."""
    asked = [at for at, each in enumerate(messages) if each.role != "assistant"]
    last = asked[-1] + 1 if asked else 0
    return messages[:last], messages[last:]


def _tools(told: Mapping[str, Any], request: Mapping[str, Any]) -> str | None:
    """The catalog, where OpenTelemetry's attribute for it is missing."""
    if told.get("gen_ai.tool.definitions") is not None:
        return None
    parameters = json_of(told.get("model_request_parameters"))
    if isinstance(parameters, dict):
        lists = [parameters.get(key) for key in ("function_tools", "output_tools")]
        return catalog(_definition(each) for tools in lists if isinstance(tools, list) for each in tools)
    tools = request.get("tools")
    return catalog(tools) if isinstance(tools, list) else None


def _definition(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    named = {"name": tool.get("name"), "description": tool.get("description")}
    return {"type": "function", **named, "parameters": tool.get("parameters_json_schema")}


def _pending(view: SpanView) -> dict[str, Any]:
    """A span that has begun: sent under an id of its own, as the child of the one that it stands for."""
    if text(view.attributes, "logfire.span_type") != "pending_span" or view.parent_span_id is None:
        return {}
    parent = text(view.attributes, "logfire.pending_parent_id")
    real = parent if parent and parent.strip("0") else None
    return {"pending": True, "stands_for": view.parent_span_id, "parent_span_id": real}


def _error(view: SpanView) -> str | None:
    level = integer(view.attributes, "logfire.level_num")
    if level is None or level < _ERROR or view.status == "error":  # the status tells it better
        return None
    return text(view.attributes, "logfire.msg") or "error"


def _metadata(told: Mapping[str, Any]) -> dict[str, Any] | None:
    tags = told.get("logfire.tags")
    kept = (
        [each for each in tags if each != "LLM"] if isinstance(tags, list) else []
    )  # its own instrumentations say that
    return {"tags": kept} if kept else None

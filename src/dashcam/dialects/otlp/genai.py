"""OpenTelemetry's own conventions for generative AI, `gen_ai.*`: old and new names side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.messages import conversation, system_text
from dashcam.dialects.otlp.parts import output_of
from dashcam.dialects.otlp.reading import Kind, LogView, Reading, Said, SpanView
from dashcam.dialects.otlp.values import (
    count,
    error_of,
    json_of,
    json_text,
    name,
    number,
    session_of,
    stop_reason,
    structure_of,
    text,
    usage_within,
    user_of,
    value_of,
)

_KINDS: dict[str, Kind] = {
    # `llm_call` and `tool_call` are Gemini CLI's. An embedding asks a model, but says nothing in a conversation.
    **dict.fromkeys(("chat", "generate_content", "text_completion", "completion", "llm_call"), "model"),
    **dict.fromkeys(("execute_tool", "tool_call"), "tool"),
    **dict.fromkeys(("create_agent", "invoke_agent", "invoke_workflow", "execute_event_loop_cycle"), "agent"),
    "retrieval": "retrieval",
    "embeddings": "span",
}
_OPERATION = "gen_ai.operation.name"
_SETTING = "gen_ai.request."
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
# What Google's ADK calls them; its JSON texts are `{}` where content is not to be told.
_ADK_SCOPE = "gcp.vertex.agent"
_ADK = f"{_ADK_SCOPE}."
_MADE_UP = re.compile(r"(.+)_\d{1,3}")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "tool_arguments", f"{_ADK}tool_call_args")
_RESULTS = ("gen_ai.tool.call.result", "tool_response", f"{_ADK}tool_response")

_TOTAL_INPUT = ("input_tokens", "prompt_tokens")
_TOTAL_OUTPUT = ("output_tokens", "completion_tokens")
_CACHE_READ = (
    *("cache_read.input_tokens", "cache_read_input_tokens", "cache_read_tokens", "cached_input_tokens"),
    *("details.cache_read_tokens", "details.cache_read_input_tokens", "details.cached_tokens"),
)
_CACHE_WRITE = (
    *("cache_creation.input_tokens", "cache_write.input_tokens", "cache_creation_input_tokens"),
    *("cache_write_input_tokens", "cache_write_tokens", "cache_creation_tokens"),
    *("details.cache_write_tokens", "details.cache_creation_input_tokens"),
)
_REASONING = (
    *("reasoning.output_tokens", "reasoning_tokens", "reasoning_output_tokens"),
    *("details.reasoning_tokens", "details.thoughts_tokens"),
)


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    """What the attributes of a span tell; its events are read by `genai_events`."""
    if _OPERATION not in view.attributes and not any(key.startswith("gen_ai.") for key in view.attributes):
        return None
    return with_own_ids(view, told(view.attributes, kind_of(view.attributes), error_of(view)))


def told(attributes: Mapping[str, Any], kind: Kind | None, error: str | None = None) -> Reading:
    """What attributes tell of something of this kind, wherever they stand."""
    runs, speaks = kind in ("tool", "retrieval"), kind in ("model", "agent")
    return Reading(
        kind=kind,
        session_id=session_of(attributes),
        user_id=user_of(attributes),
        agent=name(attributes, "gen_ai.agent.name", "gen_ai.workflow.name", "gen_ai.agent.id"),
        provider=text(attributes, "gen_ai.provider.name", "gen_ai.system"),
        model=text(attributes, "gen_ai.response.model", "gen_ai.request.model"),
        settings=_settings(attributes),
        system=_system(attributes) if speaks else None,
        tools=_tools(attributes.get("gen_ai.tool.definitions")),
        input=_input(attributes) if speaks else None,
        output=_output(attributes) if speaks else None,
        usage=usage_of(attributes),
        cost_usd=_cost(attributes),
        response_id=name(attributes, "gen_ai.response.id"),
        stop_reason=_stop_reason(attributes),
        first_token_ms=_first_token_ms(attributes),
        tool=text(attributes, "gen_ai.tool.name", "gen_ai.data_source.id") if runs else None,
        call_id=name(attributes, "gen_ai.tool.call.id", "gen_ai.tool.call_id") if runs else None,
        arguments=_first(attributes, *_ARGUMENTS, "gen_ai.retrieval.query.text") if runs else None,
        result=output_of(_first(attributes, *_RESULTS, "gen_ai.retrieval.documents")) if runs else None,
        error=error,
    )


def with_own_ids(view: SpanView, reading: Reading) -> Reading:
    """Without the ids that ADK makes up for calls, a name and a place in the message: no run of a tool has such a one."""
    if view.scope != _ADK_SCOPE or not (reading.input or reading.output):
        return reading
    sides = {side: messages for side in ("input", "output") if (messages := getattr(reading, side))}
    return msgspec.structs.replace(reading, **{side: tuple(map(_nameless, told)) for side, told in sides.items()})


def _nameless(message: Said) -> Said:
    parts = []
    for part in message.parts:
        made_up = _MADE_UP.fullmatch(part.get("toolCallId") or "")
        named = made_up and part["toolName"] in (None, "", made_up[1])
        parts.append({**part, "toolCallId": None, "toolName": made_up[1]} if made_up and named else part)
    return msgspec.structs.replace(message, parts=tuple(parts))


def kind_of(attributes: Mapping[str, Any]) -> Kind | None:
    """What somebody did, by the name of the operation; without one by what only that has."""
    operation = text(attributes, _OPERATION)
    if operation is not None:
        return _KINDS.get(operation.lower())
    if text(attributes, "gen_ai.tool.name"):
        return "tool"
    asked = text(attributes, "gen_ai.request.model", "gen_ai.response.model")
    answered = usage_of(attributes) or attributes.get(_INPUT) or attributes.get("gen_ai.response.id")
    return "model" if asked and answered else None


def usage_of(attributes: Mapping[str, Any], prefix: str = "gen_ai.usage.") -> Usage | None:
    """Tokens in parts that don't overlap. The totals include what came from a cache and what was thought.

    `gen_ai.aggregated_usage.*` repeats the sums of others and is nobody's usage.
    """

    sent, answered, read, write, reasoning = (count(attributes, *names) for names in _counts_under(prefix))
    return usage_within(sent, answered, read=read, write=write, reasoning=reasoning)


@cache
def _counts_under(prefix: str) -> list[tuple[str, ...]]:
    lists = (_TOTAL_INPUT, _TOTAL_OUTPUT, _CACHE_READ, _CACHE_WRITE, _REASONING)
    return [tuple(prefix + each for each in names) for names in lists]


def _settings(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    told = {
        key.removeprefix(_SETTING): value
        for key, value in attributes.items()
        if key.startswith(_SETTING) and value is not None
    }
    told.pop("model", None)
    return told or None


def _system(attributes: Mapping[str, Any]) -> str | None:
    config = _adk_request(attributes).get("config")
    elsewhere = config.get("system_instruction") if isinstance(config, dict) else None
    return system_text(attributes.get("gen_ai.system_instructions")) or system_text(elsewhere)


def _tools(value: Any) -> str | None:
    """The catalog: to the letter where it is one text. Some have a list of JSON texts."""
    return json_text([structure_of(each) for each in value] if isinstance(value, list) else value)


def _input(attributes: Mapping[str, Any]) -> tuple[Said, ...] | None:
    return (
        conversation(attributes.get(_INPUT))
        or conversation(attributes.get("gen_ai.prompt"))
        or conversation(_adk_request(attributes).get("contents"))
    )


def _output(attributes: Mapping[str, Any]) -> tuple[Said, ...] | None:
    answer = json_of(attributes.get(f"{_ADK}llm_response"))
    return (
        conversation(attributes.get(_OUTPUT), "assistant")
        or conversation(attributes.get("gen_ai.completion"), "assistant")
        or conversation(answer.get("content") if isinstance(answer, dict) else None, "assistant")
    )


def _adk_request(attributes: Mapping[str, Any]) -> dict[str, Any]:
    request = json_of(attributes.get(f"{_ADK}llm_request"))
    return request if isinstance(request, dict) else {}


def _stop_reason(attributes: Mapping[str, Any]) -> str | None:
    """Why the model stopped: told beside its answer, or in it. Anthropic's SDK has a name of its own."""
    told = stop_reason(attributes.get("gen_ai.response.finish_reasons")) or stop_reason(
        attributes.get("anthropic.message.stop_reason")
    )
    answers = structure_of(attributes.get(_OUTPUT)) if told is None else []
    answers = answers if isinstance(answers, list) else [answers]
    return told or stop_reason([text(each, "finish_reason") for each in answers if isinstance(each, dict)])


def _cost(attributes: Mapping[str, Any]) -> float | None:
    cost = number(attributes, "gen_ai.usage.cost", "gen_ai.usage.cost_usd", "operation.cost")
    return cost if cost is not None and cost >= 0 else None


def _first_token_ms(attributes: Mapping[str, Any]) -> float | None:
    """The convention counts seconds; Strands has a name of its own and counts milliseconds."""
    seconds = number(attributes, "gen_ai.response.time_to_first_chunk", "gen_ai.response.time_to_first_token")
    millis = number(attributes, "gen_ai.server.time_to_first_token") if seconds is None else seconds * 1000
    return millis if millis is not None and 0 <= millis < float("inf") else None


def _first(attributes: Mapping[str, Any], *keys: str) -> Any:
    """The first of these that is told, decoded where it is a JSON text."""
    return next((value_of(value) for key in keys if (value := attributes.get(key)) not in (None, "")), None)

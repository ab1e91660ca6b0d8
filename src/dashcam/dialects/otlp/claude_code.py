"""Claude Code's own telemetry: spans `claude_code.*`, and log records that tell what the spans leave out.

What was said stands in records alone, and one model call is told up to three times: by its span, by `api_request`
(which knows the cost) and by `assistant_response` (which knows the words). All three carry the id of the request,
which is their `response_id`: joined by that, over all traces of the session, because records that Claude Code writes
outside of any span stand in the trace `session:<id>`. A tool run is told by its span (what it gave) and by
`tool_result` (all its arguments, and whether it failed): joined by `call_id`.

`metadata["query_source"]` says who asked the model. Where that isn't the main loop (titles, summaries, sub agents)
`metadata["aside"]` is True: such an answer was not given to the user. The span of a title's request doesn't know;
the records with its `response_id` do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.messages import said
from dashcam.dialects.otlp.reading import LogView, Reading, SpanView
from dashcam.dialects.otlp.values import (
    count,
    error_of,
    name,
    number,
    session_of,
    stop_reason,
    structure_of,
    text,
    user_of,
)
from dashcam.dialects.usage import usage_from

DIALECT = "claude_code"
AGENT = "claude-code"

_PREFIX = "claude_code."
_SCOPE = "com.anthropic.claude_code"
_MAIN_LOOP = ("repl_main_thread", "sdk", "main")
_SETTINGS = ("speed", "effort")
_KEPT = ("query_source", "prompt.id", "agent_id", "parent_agent_id")


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    """What a span of Claude Code tells; None for anybody else's."""
    if not view.name.startswith(_PREFIX):
        return None
    told, kind = view.attributes, view.name.removeprefix(_PREFIX)
    if kind == "interaction":
        prompt = text(told, "user_prompt")
        is_told = prompt is None or any(_event(log) == "user_prompt" for log in logs)
        return _reading(told, kind="agent", input=None if is_told else (said(None, prompt, "user"),))
    if kind == "llm_request":
        return _model_call(told, _failure(told) or error_of(view))
    if kind == "tool":
        return _reading(
            told,
            kind="tool",
            tool=text(told, "tool_name"),
            call_id=_call_id(told),
            result=_given(view),
            error=_failure(told) or error_of(view),
        )
    return _reading(told, kind="span", call_id=_call_id(told), error=_failure(told) or error_of(view))


def read_log(log: LogView) -> Reading | None:
    """What a log record of Claude Code tells; None for anybody else's."""
    event, told = _event(log), log.attributes
    if event is None:
        return None
    if event == "user_prompt" and (words := text(told, "prompt")):
        return _reading(told, kind="said", input=(said(None, words, "user"),))
    if event == "assistant_response" and (words := text(told, "response")):
        output = (said(None, words, "assistant"),)
        return _reading(told, kind="said", output=output, response_id=_request_id(told), model=_model(told))
    if event in ("api_request", "api_error"):
        return _model_call(told, None if event == "api_request" else _failure(told) or "error")
    if event == "tool_result":
        return _reading(
            told,
            kind="tool",
            tool=text(told, "tool_name"),
            call_id=_call_id(told),
            arguments=next((structure_of(told[key]) for key in ("tool_input", "tool_parameters") if key in told), None),
            result=next((told[key] for key in ("result", "tool_result", "output") if key in told), None),
            error=_failure(told),
        )
    if event == "tool_decision":
        decision = {key: told[key] for key in ("decision", "source") if text(told, key)}
        return _reading(told, decision, kind="span", tool=text(told, "tool_name"), call_id=_call_id(told))
    return _reading(told, kind="span", error=_failure(told))


def _model_call(told: Mapping[str, Any], error: str | None) -> Reading:
    return _reading(
        told,
        kind="model",
        provider=text(told, "gen_ai.system", "gen_ai.provider.name") or "anthropic",
        model=_model(told),
        settings={key: told[key] for key in _SETTINGS if text(told, key)} or None,
        usage=_usage(told),
        cost_usd=number(told, "cost_usd"),
        response_id=_request_id(told),
        stop_reason=stop_reason(told.get("stop_reason")) or stop_reason(told.get("gen_ai.response.finish_reasons")),
        first_token_ms=number(told, "ttft_ms"),
        error=error,
    )


def _reading(told: Mapping[str, Any], more: Mapping[str, Any] | None = None, **fields: Any) -> Reading:
    metadata = {key: told[key] for key in _KEPT if text(told, key)} | dict(more or {})
    if fields["kind"] in ("model", "said") and _is_aside(told):
        metadata["aside"] = True
    # A sub agent's name is told by some of its records only.
    agent = text(told, "agent.name") or (None if text(told, "agent_id") else AGENT)
    return Reading(
        dialect=DIALECT,
        session_id=session_of(told),
        user_id=user_of(told),
        agent=agent,
        metadata=metadata or None,
        **fields,
    )


def _event(log: LogView) -> str | None:
    """The event's name without the prefix, which stands in the body alone."""
    if not (log.scope.startswith(_SCOPE) or log.name.startswith(_PREFIX)):
        return None
    return (log.name or text(log.attributes, "event.name") or "").removeprefix(_PREFIX)


def _is_aside(told: Mapping[str, Any]) -> bool:
    source = text(told, "query_source")
    if source is None:
        return text(told, "agent_id") is not None
    return source.partition(":")[0] not in _MAIN_LOOP


def _model(told: Mapping[str, Any]) -> str | None:
    """The model. Spans add the size of its window, in brackets; records don't."""
    model = text(told, "model", "gen_ai.request.model")
    return model and (model.partition("[")[0] or model)


def _usage(told: Mapping[str, Any]) -> Usage | None:
    """Here input is told without what the cache served or took, as Anthropic counts."""
    counts = {
        "input_tokens": count(told, "input_tokens"),
        "output_tokens": count(told, "output_tokens"),
        "cache_read_input_tokens": count(told, "cache_read_tokens"),
        "cache_creation_input_tokens": count(told, "cache_creation_tokens"),
    }
    if all(value is None for value in counts.values()):
        return None
    return usage_from({key: value or 0 for key, value in counts.items()})


def _request_id(told: Mapping[str, Any]) -> str | None:
    return name(told, "request_id", "gen_ai.response.id")


def _call_id(told: Mapping[str, Any]) -> str | None:
    return name(told, "tool_use_id", "gen_ai.tool.call.id")


def _failure(told: Mapping[str, Any]) -> str | None:
    """What went wrong. Spans say `success` as a switch, records as a text; errors of requests don't say it."""
    reason = text(told, "error", "error_message", "error_type", "error_name")
    if str(told.get("success")).lower() == "true":
        return None
    return reason or ("error" if str(told.get("success")).lower() == "false" else None)


def _given(view: SpanView) -> Any:
    """What a tool gave, where Claude Code was told to say it."""
    for event in view.events:
        if event.name == "tool.output":
            found = next((event.attributes[key] for key in ("output", "content") if key in event.attributes), None)
            return event.attributes or None if found is None else found
    return None

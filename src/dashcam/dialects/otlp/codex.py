"""Codex's own telemetry: log records `codex.*`. Its spans show the program's inner life and no agent's step.

A record's name is its attribute `event.name`; the name that OpenTelemetry has for it is a place in Codex's source.
Each completed stream is one model call; a request over HTTP is told only where it failed. What is said is there only
where the user switched it on: `codex.user_prompt`, and of the answers the last one of a turn (`codex.agent_response`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.messages import said
from dashcam.dialects.otlp.reading import LogView, Reading, SpanView
from dashcam.dialects.otlp.values import count, error_of, name, number, session_of, structure_of, text
from dashcam.dialects.usage import usage_from

DIALECT = AGENT = "codex"

_PREFIX = "codex."
_TWIN = "trace_safe"  # the same event told again for spans, without what was said
_SETTINGS = (
    *("reasoning_effort", "reasoning_summary", "approval_policy", "sandbox_policy"),
    *("context_window", "auto_compact_token_limit"),
)
_KEPT = ("originator", "app.version", "turn.id", "parent.conversation.id")
_MODEL_ENDPOINTS = ("responses", "completions", "unknown")


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    """Every span of Codex is a plain one, also those that repeat a call's token counts; None for anybody else's."""
    service = text(view.resource, "service.name") or ""
    if not service.lower().startswith("codex") or "gen_ai.operation.name" in view.attributes:
        return None
    # Not `thread.id`: that is a thread of the machine.
    session = text(view.attributes, "conversation.id", "thread_id")
    return Reading(kind="span", dialect=DIALECT, session_id=session, error=error_of(view))


def read_log(log: LogView) -> Reading | None:
    """What a log record of Codex tells; None for anybody else's."""
    event = next((each for each in (text(log.attributes, "event.name"), log.name) if each and _is_ours(each)), None)
    if event is None:
        return None
    told, read_event = log.attributes, _EVENTS.get(event.removeprefix(_PREFIX))
    is_twin = _TWIN in log.scope or _TWIN in (text(told, "target") or "")
    reading = None if is_twin or read_event is None else read_event(told)
    return reading or _reading(told, kind="span")


def _is_ours(event: str) -> bool:
    return event.startswith(_PREFIX)


def _conversation(told: Mapping[str, Any]) -> Reading:
    settings = {key: told[key] for key in _SETTINGS if isinstance(told.get(key), str | int)}
    return _reading(told, kind="span", provider=text(told, "provider_name"), settings=settings or None)


def _prompt(told: Mapping[str, Any]) -> Reading | None:
    words = text(told, "prompt")
    return _reading(told, kind="said", input=(said(None, words, "user"),)) if words else None


def _answer(told: Mapping[str, Any]) -> Reading | None:
    words = text(told, "response")
    if words is None:
        return None
    aside = {"aside": True} if told.get("agent.type") == "subagent" else None
    return _reading(told, aside, kind="said", output=(said(None, words, "assistant"),))


def _request(told: Mapping[str, Any]) -> Reading | None:
    status, reason = count(told, "http.response.status_code", "status"), text(told, "error.message", "error")
    endpoint = text(told, "endpoint") or "unknown"
    is_fine = reason is None and (status is None or status < 400)
    if is_fine or not any(word in endpoint for word in _MODEL_ENDPOINTS):
        return None
    return _reading(told, kind="model", error=reason or f"HTTP {status}")


def _streamed(told: Mapping[str, Any]) -> Reading | None:
    """One event of an answer's stream: the last one tells what it took."""
    usage, reason = _usage(told), text(told, "error.message", "error")
    is_end = text(told, "event.kind", "kind") == "response.completed"
    if reason is None and (usage is None or not is_end):
        return None
    return _reading(
        told,
        kind="model",
        usage=usage,
        response_id=name(told, "response.id", "response_id"),
        first_token_ms=number(told, "ttft_ms"),
        stop_reason="stop" if reason is None else None,
        error=reason,
    )


def _tool_run(told: Mapping[str, Any]) -> Reading | None:
    if "output" not in told and "arguments" not in told:
        return None
    failed = str(told.get("success")).lower() == "false"
    reason = text(told, "error.message", "error", "output") or "error"
    return _reading(
        told,
        kind="tool",
        tool=text(told, "tool_name"),
        call_id=name(told, "call_id"),
        arguments=structure_of(told.get("arguments")),
        result=told.get("output"),
        error=reason if failed else None,
    )


def _decision(told: Mapping[str, Any]) -> Reading:
    decision = {key: told[key] for key in ("decision", "source") if text(told, key)}
    return _reading(told, decision, kind="span", tool=text(told, "tool_name"), call_id=name(told, "call_id"))


_EVENTS = {
    "conversation_starts": _conversation,
    "user_prompt": _prompt,
    "agent_response": _answer,
    "api_request": _request,
    "sse_event": _streamed,
    "tool_result": _tool_run,
    "tool_decision": _decision,
}


def _reading(told: Mapping[str, Any], more: Mapping[str, Any] | None = None, **fields: Any) -> Reading:
    metadata = {key: told[key] for key in _KEPT if text(told, key)} | dict(more or {})
    return Reading(
        dialect=DIALECT,
        session_id=session_of(told),
        user_id=text(told, "user.account_id", "user.email"),
        agent=AGENT,
        metadata=metadata or None,
        **({"model": text(told, "model", "slug"), "provider": "openai"} | fields),
    )


def _usage(told: Mapping[str, Any]) -> Usage | None:
    """Counts are numbers or texts; the parts are within the wholes, and `tool_token_count` is the sum of all."""
    sent, answered = count(told, "input_token_count"), count(told, "output_token_count")
    if sent is None and answered is None:
        return None
    cached = {
        "cached_tokens": count(told, "cached_token_count") or 0,
        "cache_write_tokens": count(told, "cache_write_token_count") or 0,
    }
    return usage_from(
        {
            "prompt_tokens": sent or 0,
            "completion_tokens": answered or 0,
            "prompt_tokens_details": cached,
            "completion_tokens_details": {"reasoning_tokens": count(told, "reasoning_token_count") or 0},
        }
    )

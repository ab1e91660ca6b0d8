"""Gemini CLI's own telemetry, where it differs from OpenTelemetry's conventions, which `genai` reads.

Spans tell the session: `llm_call` all that was said, `tool_call` each run of a tool. Log records repeat it, most of
them outside of any trace, and are therefore plain. One adds to a call: `gemini_cli.api_response` knows what came out
of the cache and what was thought. No id joins it to the span, so both get a `response_id` made of what both tell
(session, token counts, answer): who joins by that, over all traces of the session, takes the record's usage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.messages import conversation
from dashcam.dialects.otlp.parts import Part, output_of, parts_of
from dashcam.dialects.otlp.reading import LogView, Reading, Said, SpanView
from dashcam.dialects.otlp.values import (
    canonical,
    count,
    error_of,
    json_of,
    name,
    session_of,
    stop_reason,
    structure_of,
    text,
    user_of,
)
from dashcam.dialects.usage import usage_from

DIALECT = "gemini_cli"
AGENT = "gemini-cli"

_PREFIX = "gemini_cli."
_RESPONSE = "gemini_cli.api_response"
_HELPERS = "utility"  # the roles of requests that answer nobody: titles, summaries, routing, …
_DONE = "success"
_DIGITS = 32


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    """What a span of Gemini CLI tells that `genai` can't read; None for anybody else's."""
    told = view.attributes
    if view.scope != AGENT and text(told, "gen_ai.agent.name") != AGENT:
        return None
    session = session_of(told) or session_of(view.resource)
    operation = text(told, "gen_ai.operation.name") or view.name
    if operation == "llm_call":
        output = _answer(conversation(told.get("gen_ai.output.messages"), "assistant"))
        sent, answered = (count(told, f"gen_ai.usage.{which}_tokens") for which in ("input", "output"))
        role = next((each for log in logs if (each := text(log.attributes, "role"))), None)
        return Reading(
            kind="model",
            dialect=DIALECT,
            session_id=session,
            metadata=_metadata(role, name(told, "gen_ai.prompt.name")),
            tools=_declarations(told.get("gen_ai.tool.definitions")),
            output=output,
            usage=_usage(sent, answered, {}),
            response_id=_response_id(session, sent, answered, output),
            error=error_of(view),
        )
    if operation == "tool_call":
        return _tool_run(view, session)
    return Reading(kind="agent" if operation == "agent_call" else "span", dialect=DIALECT, session_id=session)


def read_log(log: LogView) -> Reading | None:
    """What a log record of Gemini CLI tells: always something that its spans tell, too. None for anybody else's."""
    if log.scope != AGENT and not log.name.startswith(_PREFIX):
        return None
    told = log.attributes
    session = session_of(told) or session_of(log.resource)
    reading = Reading(
        kind="span", dialect=DIALECT, session_id=session, user_id=user_of(told), error=text(told, "error", "error_type")
    )
    if log.name != _RESPONSE:
        return reading
    output = _answer(_streamed(told.get("response_text")))
    sent, answered = (count(told, f"{which}_token_count") for which in ("input", "output"))
    return msgspec.structs.replace(
        reading,
        metadata=_metadata(text(told, "role"), name(told, "prompt_id")),
        model=text(told, "model"),
        output=output,
        usage=_usage(sent, answered, told),
        response_id=_response_id(session, sent, answered, output),
        stop_reason=stop_reason(told.get("finish_reasons")),
    )


def _tool_run(view: SpanView, session: str | None) -> Reading:
    told = view.attributes
    asked, gave = _object(told.get("gen_ai.input.messages")), _object(told.get("gen_ai.output.messages"))
    response = _object(gave.get("response"))
    tool, status = text(told, "gen_ai.tool.name") or text(asked, "name"), text(gave, "status")
    call_id = name(told, "gen_ai.tool.call_id", "gen_ai.tool.call.id") or name(asked, "callId")
    failure = _object(response.get("error"))
    reason = text(failure, "message") or text(response, "error", "errorType") or status
    return Reading(
        kind="tool",
        dialect=DIALECT,
        session_id=session,
        tool=tool,
        call_id=_plain_id(call_id, tool),
        arguments=asked.get("args"),
        result=_result(response),
        error=error_of(view) or (reason if status not in (None, _DONE) else None),
    )


def _result(response: Mapping[str, Any]) -> Any:
    """What the model was given of a tool's run; else what the user was shown."""
    given = [part["output"] for part in parts_of(response.get("responseParts")) if part["type"] == "tool-result"]
    if not given:
        return structure_of(response.get("resultDisplay"))
    return given[0] if len(given) == 1 else output_of(given)


def _streamed(value: Any) -> tuple[Said, ...] | None:
    """The messages of a stream's responses, one after the other."""
    candidates = [_list(_object(response).get("candidates"))[:1] for response in _list(json_of(value))]
    return conversation([_object(first).get("content") for each in candidates for first in each], "assistant")


def _answer(pieces: tuple[Said, ...] | None) -> tuple[Said, ...] | None:
    """One message out of the pieces of its stream, with the ids of calls as histories have them."""
    if not pieces:
        return None
    parts = tuple(_grown(part for piece in pieces for part in piece.parts))
    whole = {"role": "model", "parts": [part for piece in pieces for part in _list(_object(piece.raw).get("parts"))]}
    return (Said(role="assistant", parts=parts, raw=pieces[0].raw if len(pieces) == 1 else canonical(whole)),)


def _grown(parts: Iterable[Part]) -> list[Part]:
    grown: list[Part] = []
    for part in parts:
        if part["type"] == "tool-call":
            grown.append({**part, "toolCallId": _plain_id(part["toolCallId"], part["toolName"])})
        elif grown and part["type"] in ("text", "reasoning") and part["type"] == grown[-1]["type"]:
            grown[-1] = {**part, "text": grown[-1]["text"] + part["text"]}
        else:
            grown.append(part)
    return grown


def _plain_id(call_id: str | None, tool: str | None) -> str | None:
    """Answers and spans put the tool's name before an id, histories leave it out."""
    return call_id.removeprefix(f"{tool}__") if call_id and tool else call_id


def _usage(sent: int | None, answered: int | None, told: Mapping[str, Any]) -> Usage | None:
    """Counts as Gemini has them: the cache's within what was sent, thoughts beside what was answered."""
    counts = {
        "promptTokenCount": sent,
        "candidatesTokenCount": answered,
        "cachedContentTokenCount": count(told, "cached_content_token_count"),
        "thoughtsTokenCount": count(told, "thoughts_token_count"),
        "toolUsePromptTokenCount": count(told, "tool_token_count"),
    }
    return usage_from(counts)


def _response_id(
    session: str | None, sent: int | None, answered: int | None, output: tuple[Said, ...] | None
) -> str | None:
    if output is None:
        return None
    said = [(part["type"], part.get("text"), part.get("toolCallId")) for part in output[0].parts]
    return f"gemini:{sha256(ascii((session, sent, answered, said)).encode()).hexdigest()[:_DIGITS]}"


def _metadata(role: str | None, prompt_id: str | None) -> dict[str, Any] | None:
    told: dict[str, Any] = {key: value for key, value in (("role", role), ("prompt_id", prompt_id)) if value}
    return told | ({"aside": True} if role and role.startswith(_HELPERS) else {}) or None


def _declarations(value: Any) -> str | None:
    """The catalog as one list of functions, each to the letter: Gemini has lists of them within a list."""
    if not isinstance(value, str):
        return None
    try:
        groups = msgspec.json.decode(value, type=list[dict[str, msgspec.Raw]])
        lists = [group["functionDeclarations"] for group in groups]
        found = [each for one in lists for each in msgspec.json.decode(one, type=list[msgspec.Raw])]
        return b"".join((b"[", b",".join(map(bytes, found)), b"]")).decode()
    except (ValueError, KeyError, RecursionError):
        return None


def _object(value: Any) -> dict[str, Any]:
    value = structure_of(value)
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""OpenTelemetry's conventions for generative AI where events tell them: log records of a span, or events on it.

An event a message (`gen_ai.user.message`, …, `gen_ai.choice`) or one for all (`…operation.details`, whose
attributes are those of a span, nested instead of JSON).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dashcam.dialects.otlp import genai
from dashcam.dialects.otlp.messages import conversation, said
from dashcam.dialects.otlp.parts import output_of
from dashcam.dialects.otlp.reading import LogView, Reading, Role, Said, SpanView
from dashcam.dialects.otlp.values import json_of, stop_reason, structure_of, text

_DETAILS = "gen_ai.client.inference.operation.details"
_EXCEPTION = "gen_ai.client.operation.exception"
_CHOICE = "gen_ai.choice"
_ROLES: dict[str, Role] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_PROMPT, _COMPLETION = "gen_ai.content.prompt", "gen_ai.content.completion"  # before there was an event a message
_CONTENT = "gen_ai.event.content"  # where a body was not to be had
_NAMES = frozenset((_DETAILS, _EXCEPTION, _CHOICE, _PROMPT, _COMPLETION, *_ROLES))
_BODY = ("role", "content", "message", "tool_calls", "id", "name", "index", "finish_reason")


class _Event(msgspec.Struct, frozen=True):
    name: str
    attributes: Mapping[str, Any]
    body: Mapping[str, Any]


def read(view: SpanView, logs: Sequence[LogView]) -> Reading | None:
    """What the events of a span tell, those that stand on it and those that came as log records."""
    events = [_logged(log) for log in sorted(logs, key=lambda log: log.at_ns) if log.name in _NAMES]
    events += [_on_span(event.name, event.attributes) for event in view.events if event.name in _NAMES]
    if not events:
        return None
    details = _details(events)
    choices = [event.body for event in events if event.name == _CHOICE]
    kind = genai.kind_of({**details, **view.attributes}) or ("model" if choices else None)
    more = {key: value for key, value in details.items() if key not in view.attributes}  # the span tells the others
    reading = genai.with_own_ids(view, genai.told(more, kind, _error(events)))
    if kind == "tool":
        return _tool_run(reading, events)
    return msgspec.structs.replace(
        reading,
        input=reading.input or _input(events),
        output=reading.output or _output(events),
        stop_reason=reading.stop_reason or stop_reason([choice.get("finish_reason") for choice in choices]),
    )


def _logged(log: LogView) -> _Event:
    body = log.body
    if isinstance(body, str):
        decoded = json_of(body)
        body = decoded if isinstance(decoded, dict) else {"content": body}
    if isinstance(body, dict) and body:
        return _Event(log.name, log.attributes, body)
    return _on_span(log.name, log.attributes)


def _on_span(name: str, attributes: Mapping[str, Any]) -> _Event:
    """An event without a body: attributes say it, those that have structure as JSON texts."""
    inside = json_of(attributes.get(_CONTENT))
    if isinstance(inside, dict):
        return _Event(name, attributes, inside)
    body = {key: attributes[key] for key in _BODY if attributes.get(key) is not None}
    for key in ("content", "message", "tool_calls"):
        if key in body:
            body[key] = _blocks_of(body[key])
    return _Event(name, attributes, body)


def _blocks_of(value: Any) -> Any:
    """A list of blocks that came as a JSON text. What else may look like JSON is what somebody said."""
    decoded = json_of(value)
    return decoded if isinstance(decoded, list) and all(isinstance(each, dict) for each in decoded) else value


def _details(events: Sequence[_Event]) -> dict[str, Any]:
    """Of several such events (one before the call, one after) the first that tells a thing."""
    details: dict[str, Any] = {}
    for event in events:
        if event.name == _DETAILS:
            told = {**event.body, **event.attributes}
            details |= {key: value for key, value in told.items() if details.get(key) is None}
    return details


def _error(events: Sequence[_Event]) -> str | None:
    raised = [event.attributes for event in events if event.name == _EXCEPTION]
    failed = [text(each, "exception.message", "exception.type", "error.type") for each in raised]
    failed += [text(event.attributes, "error.type") for event in events if event.name == _DETAILS]
    return next((each for each in failed if each), None)


def _input(events: Sequence[_Event]) -> tuple[Said, ...] | None:
    messages = [_message(event.body, _ROLES[event.name]) for event in events if event.name in _ROLES]
    for event in events:
        if event.name == _PROMPT:
            messages += conversation(event.attributes.get("gen_ai.prompt")) or ()
    return tuple(messages) or None


def _output(events: Sequence[_Event]) -> tuple[Said, ...] | None:
    messages = [_message(_answer(event.body), "assistant") for event in events if event.name == _CHOICE]
    for event in events:
        if event.name == _COMPLETION:
            messages += conversation(event.attributes.get("gen_ai.completion"), "assistant") or ()
    return tuple(messages) or None


def _message(body: Mapping[str, Any], role: Role) -> Said:
    """One message. The name of the event says whose it is, whatever a body says besides."""
    return said(None, {**body, "role": role}, role)


def _answer(choice: Mapping[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    around = {key: choice[key] for key in ("content", "tool_calls") if key in choice}
    if isinstance(message, dict):
        return {**around, **message}
    return around if message is None else {**around, "content": message}


def _tool_run(reading: Reading, events: Sequence[_Event]) -> Reading:
    """On the span of a tool Strands tells arguments and result as if they were messages."""
    asked = next((event.body for event in events if event.name == "gen_ai.tool.message"), {})
    gave = next((event.body for event in events if event.name == _CHOICE), {})
    details = _details(events)
    call = _part(details.get("gen_ai.input.messages"), "tool-call")
    result = _part(details.get("gen_ai.output.messages"), "tool-result")
    arguments = next((each for each in (reading.arguments, call.get("input")) if each is not None), None)
    output = next((each for each in (reading.result, result.get("output")) if each is not None), None)
    return msgspec.structs.replace(
        reading,
        tool=reading.tool or call.get("toolName") or None,
        call_id=reading.call_id or call.get("toolCallId") or text(asked, "id") or text(gave, "id"),
        arguments=structure_of(asked.get("content")) if arguments is None else arguments,
        result=output_of(gave.get("message", gave.get("content"))) if output is None else output,
    )


def _part(messages: Any, kind: str) -> dict[str, Any]:
    found = (part for message in conversation(messages) or () for part in message.parts if part["type"] == kind)
    return next(found, {})

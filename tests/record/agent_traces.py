"""Traces of agents, made up: as what a dialect reads, and as spans of OpenTelemetry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import Usage
from dashcam.dialects.otlp.reading import LogView, Reading, Role, Said, SpanView
from dashcam.store.base import Piece, Projection

T0 = 1_760_000_000_000  # milliseconds
TRACE = "a" * 32
Step = tuple[SpanView, Reading]


def said(role: Role, *parts: str | dict[str, Any]) -> Said:
    """A message; a str is a text part."""
    whole = tuple({"type": "text", "text": part} if isinstance(part, str) else part for part in parts)
    return Said(role=role, parts=whole, raw=json.dumps([role, whole]).encode())


def called(call_id: str | None, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": arguments}


def result(call_id: str | None, output: Any, *, name: str | None = None, error: bool = False) -> dict[str, Any]:
    return {"type": "tool-result", "toolCallId": call_id, "toolName": name, "output": output, "error": error}


def span(
    span_id: str, at: int = 0, *, parent: str | None = None, took: int = 5, trace: str = TRACE, **fields: Any
) -> SpanView:
    """A span that begins `at` milliseconds after T0."""
    start = (T0 + at) * 1_000_000
    told = {"name": span_id, "end_ns": start + took * 1_000_000, **fields}
    return SpanView(trace_id=trace, span_id=span_id, parent_span_id=parent, start_ns=start, **told)


def log(at: int = 0, *, span_id: str | None = None, trace: str = TRACE, **fields: Any) -> LogView:
    return LogView(trace_id=trace, span_id=span_id, at_ns=(T0 + at) * 1_000_000, **fields)


def model(
    span_id: str,
    at: int,
    heard: Sequence[Said] | None = None,
    gave: Said | None = None,
    *,
    parent: str | None = None,
    trace: str = TRACE,
    view: dict[str, Any] | None = None,
    **told: Any,
) -> Step:
    """A model call."""
    fields = {"kind": "model", "model": "m-1", "usage": Usage(input=10, output=2), **told}
    reading = Reading(input=None if heard is None else tuple(heard), output=None if gave is None else (gave,), **fields)
    return span(span_id, at, parent=parent, trace=trace, **(view or {})), reading


def tool(
    span_id: str,
    at: int,
    name: str,
    call_id: str | None = None,
    *,
    parent: str | None = None,
    trace: str = TRACE,
    **told: Any,
) -> Step:
    """A run of a tool."""
    return span(span_id, at, parent=parent, trace=trace), Reading(kind="tool", tool=name, call_id=call_id, **told)


class Others:
    """What other traces tell, in memory: the least that `assemble` needs."""

    def __init__(self, recorded: Sequence[str] = ()) -> None:
        self.projections: dict[str, Projection] = {}
        self.recorded = recorded

    def told_before(self, session_id: str, before: tuple[int, str]) -> dict[bytes, int]:
        told: dict[bytes, int] = {}
        for piece, projection in self._pieces():
            if piece.session_id == session_id and (piece.first_at, piece.trace_id) < before:
                for turn in projection.turns:
                    if turn.session_id == session_id:
                        told[turn.digest] = told.get(turn.digest, 0) + turn.times
        return told

    def traces_ending(self, digest: bytes) -> list[Piece]:
        return [piece for piece, _ in self._pieces() if piece.ends == digest]

    def calls_answered_by(self, response_ids: Sequence[str]) -> list[ModelCall]:
        return []

    def is_recorded(self, session_id: str) -> bool:
        return session_id in self.recorded

    def _pieces(self) -> list[tuple[Piece, Projection]]:
        return [(piece, projection) for projection in self.projections.values() for piece in projection.pieces]


def shown(projection: Projection, session_id: str | None = None) -> list[tuple[str, list[Any]]]:
    """Who said what, in order: texts as they are, tool calls as (name, state, outcome), step-start as '|'."""
    found: list[tuple[str, list[Any]]] = []
    for message in sorted(projection.messages, key=lambda message: (message.created_at, message.id)):
        if session_id in (None, message.session_id):
            parts = sorted((p for p in projection.parts if p.message_id == message.id), key=lambda part: part.index)
            found.append((message.role, [_shown(part.data()) for part in parts]))
    return found


def _shown(data: dict[str, Any]) -> Any:
    if data["type"] == "step-start":
        return "|"
    if "toolCallId" in data:
        return (data["type"].removeprefix("tool-"), data["state"], data.get("output", data.get("errorText")))
    return data.get("text", data)


def session_requests(
    turns: int,
    loops: int,
    *,
    per_trace: int = 1,
    session: str | None = "s",
    failing: Sequence[int] = (),
    apart: bool = False,
) -> list[list[Any]]:
    """The spans of an agent's session, as OTLP messages: one list a trace.

    A turn is `loops` model calls with a tool run between two of them; each call is sent all that was said. The calls
    of turns that are `failing` get no answer. `apart`: every call, and every run of a tool, is a trace of its own.
    """
    history: list[dict[str, Any]] = []
    traces: list[list[Any]] = []
    own = {} if session is None else {"gen_ai.conversation.id": session}
    at = T0

    def add(span_id: bytes, parent: bytes, name: str, when: int, took: int, attributes: dict[str, Any]) -> None:
        if apart:
            traces.append([])
        number = len(traces)
        told = {**attributes, **own} if apart or not parent else attributes
        traces[-1].append(_message(bytes([number]) * 16, span_id, b"" if apart else parent, name, when, took, told))

    for turn in range(turns):
        if turn % per_trace == 0 and not apart:
            traces.append([])
        agent = bytes([200, turn]) * 4
        history.append({"role": "user", "parts": [{"type": "text", "content": f"question {turn % 2}"}]})
        started = at
        for loop in range(1 if turn in failing else loops):
            is_last = loop == loops - 1
            parts: list[dict[str, Any]] = [{"type": "text", "content": f"answer {turn}.{loop}"}]
            if not is_last:
                parts.append({"type": "tool_call", "id": f"c{turn}.{loop}", "name": "look", "arguments": {"n": loop}})
            answer = {"role": "assistant", "parts": parts, "finish_reason": "stop" if is_last else "tool_call"}
            attributes: dict[str, Any] = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "gpt-4o-mini",
                "gen_ai.input.messages": json.dumps(history),
            }
            if turn not in failing:
                attributes |= {
                    "gen_ai.output.messages": json.dumps([answer]),
                    "gen_ai.usage.input_tokens": 10 + loop,
                    "gen_ai.usage.output_tokens": 3,
                }
                history.append({"role": "assistant", "parts": parts})
            add(bytes([turn + 1, loop + 1]) * 4, agent, "chat", at, 3, attributes)
            if not is_last and turn not in failing:
                done = {"type": "tool_call_response", "id": f"c{turn}.{loop}", "response": f"seen {turn}.{loop}"}
                history.append({"role": "tool", "parts": [done]})
                attributes = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "look",
                    "gen_ai.tool.call.id": f"c{turn}.{loop}",
                    "gen_ai.tool.call.arguments": json.dumps({"n": loop}),
                    "gen_ai.tool.call.result": f"seen {turn}.{loop}",
                }
                add(bytes([turn + 1, loop + 101]) * 4, agent, "look", at + 4, 1, attributes)
            at += 10
        if not apart:
            about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "scout"}
            add(agent, b"", "invoke_agent scout", started, at - started, about)
        at += 1000
    return traces


def _message(
    trace_id: bytes, span_id: bytes, parent: bytes, name: str, at: int, took: int, attributes: dict[str, Any]
) -> Any:
    scope = ExportTraceServiceRequest().resource_spans.add().scope_spans.add()
    message = scope.spans.add(trace_id=trace_id, span_id=span_id, parent_span_id=parent, name=name)
    message.start_time_unix_nano, message.end_time_unix_nano = at * 1_000_000, (at + took) * 1_000_000
    for key, value in attributes.items():
        held = message.attributes.add(key=key).value
        if isinstance(value, int):
            held.int_value = value
        else:
            held.string_value = value
    return message


def request_of(spans: Sequence[Any]) -> bytes:
    """An export request that holds these spans."""
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(spans)
    return bytes(request.SerializeToString())

"""OTLP: a session's traces as OpenTelemetry spans, in the JSON of OTLP/HTTP.

Spans that came so leave so (otlp_received). Those of our own records come from the `span_started` and `span_ended`
events, model calls are spans of their own in the words of the GenAI conventions, and every other event is a span
event. What belongs to no span stands on the trace's root span, which is made up where nobody opened one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from dashcam import __version__
from dashcam.contracts.call import OTLP
from dashcam.contracts.event import Event
from dashcam.contracts.identity import MARKS, is_otel_span_id, is_otel_trace_id, otel_trace_id, root_span_id
from dashcam.exports.otlp_calls import call_span
from dashcam.exports.otlp_spans import span_attributes
from dashcam.exports.otlp_values import attributes, derived_span_id, ns_of, ns_of_iso
from dashcam.exports.selection import chat_session
from dashcam.store.base import EventFilter, Reader

INTERNAL = 1  # SpanKind
OK, ERROR = 1, 2  # StatusCode

_encode = msgspec.json.Encoder().encode
# Told by the span itself.
_PLACED = frozenset(("span_id", "parent_span_id", MARKS))
_TIMED = _PLACED | {"name", "status", "error", "started_at", "duration_ms"}


def write(store: Reader, session_ids: Sequence[str]) -> Iterator[bytes]:
    """One ExportTraceServiceRequest with all spans, a line each."""
    yield b'{"resourceSpans":['
    number = 0
    for session_id in session_ids:
        for opening, spans in blocks(store, session_id):
            yield (b",\n" if number else b"") + opening
            number += 1
            for place, span in enumerate(spans):
                yield (b",\n" if place else b"\n") + _encode(span)
            yield b"]}]}"
    yield b"]}\n"


def requests(store: Reader, session_ids: Sequence[str], spans: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The same as requests of at most so many spans and about so many bytes: how many, and the body."""
    for session_id in session_ids:
        for start, found in blocks(store, session_id):
            opening, chunk, held = b'{"resourceSpans":[' + start, [], 0
            for span in found:
                chunk.append(_encode(span))
                held += len(chunk[-1])
                if len(chunk) == spans or held >= size:
                    yield len(chunk), opening + b",".join(chunk) + b"]}]}]}"
                    chunk, held = [], 0
            if chunk:
                yield len(chunk), opening + b",".join(chunk) + b"]}]}]}"


def blocks(store: Reader, session_id: str) -> Iterator[tuple[bytes, Iterator[dict[str, Any]]]]:
    """Spans by where they come from: how a block opens, and its spans. First those that are made of our records."""
    traces = store.traces(session_id)
    if not traces or any(trace.events for trace in traces):
        yield _opening(store, session_id), spans_of(store, session_id)
    for trace in traces:
        if trace.spans:
            from dashcam.exports import otlp_received  # protobuf, which no other export needs

            yield from otlp_received.blocks(store, trace.trace_id)


def spans_of(store: Reader, session_id: str) -> Iterator[dict[str, Any]]:
    """Every span that is made of a session's records, a trace at a time."""
    for trace in store.traces(session_id):
        if not trace.events:
            continue
        builder = _Trace(session_id, trace.trace_id)
        for event in store.events(EventFilter(session_id=session_id, trace_id=trace.trace_id)):
            builder.add(event)
        yield from builder.spans()
        told = [call for call in store.model_calls(trace.trace_id, session_id=session_id) if call.wire != OTLP]
        for place, call in enumerate(told):
            yield call_span(call, place, builder.common)


class _Trace:
    """The spans of one trace, put together from its events in the order of their steps."""

    def __init__(self, session_id: str, trace_id: str) -> None:
        self.common: dict[str, Any] = {"session.id": session_id, "gen_ai.conversation.id": session_id}
        if not is_otel_trace_id(trace_id):
            self.common["dashcam.trace_id"] = trace_id
        self._trace_id = trace_id
        self._spans: dict[str, dict[str, Any]] = {}
        self._first = self._last = 0
        self._opened: set[str] = set()
        self._root = self._begin(root_span_id(trace_id), None, "trace", 0)

    def add(self, event: Event) -> None:
        fields, at = event.data(), ns_of(event.ts)
        self._first = min(self._first or at, at)
        self._last = max(self._last, at)
        span_id = self._id_of(fields.get("span_id"))
        if event.operation == "span_started":
            self._opened.add(span_id)
            self._begin(span_id, fields.get("parent_span_id"), _name(fields), at)
            self._note(span_id, event, fields, _TIMED)
        elif event.operation == "span_ended":
            self._end(span_id, event, fields, at)
        elif event.operation not in ("model_call", "model_request"):
            self._tell(span_id, event, fields, at)

    def spans(self) -> Iterator[dict[str, Any]]:
        """All of them, the root first; what never ended ends with the trace."""
        if self._root["spanId"] not in self._opened:
            self._root |= {"startTimeUnixNano": str(self._first), "endTimeUnixNano": str(self._last)}
            self._root["attributes"] += attributes(self.common)
        for span in self._spans.values():
            if span["endTimeUnixNano"] is None:
                span["endTimeUnixNano"] = str(max(self._last, int(span["startTimeUnixNano"])))
                span["attributes"] += attributes({"dashcam.unfinished": True})
            yield span

    def _begin(self, span_id: str, parent: Any, name: str, at: int) -> dict[str, Any]:
        """A span that begins now. One that is entered again inside itself stays the one that it is."""
        known = self._spans.get(span_id)
        if known is not None and known["startTimeUnixNano"] != "0":  # 0: the root that was made up
            return known
        span: dict[str, Any] = {"traceId": otel_trace_id(self._trace_id), "spanId": span_id}
        root = root_span_id(self._trace_id)
        if span_id != root:
            span["parentSpanId"] = self._id_of(parent)
        span |= {"name": name, "kind": INTERNAL, "startTimeUnixNano": str(at), "endTimeUnixNano": None}
        span |= {"attributes": [], "events": known["events"] if known else [], "status": {}}
        self._spans[span_id] = span
        if span_id == root:
            self._root = span
        return span

    def _end(self, span_id: str, event: Event, fields: dict[str, Any], at: int) -> None:
        span = self._spans.get(span_id)
        if span is None or span_id not in self._opened:  # its beginning is not in this store
            self._opened.add(span_id)
            span = self._begin(span_id, fields.get("parent_span_id"), _name(fields), ns_of_iso(fields, at))
        span["endTimeUnixNano"] = str(max(at, int(span["startTimeUnixNano"])))
        self._note(span_id, event, fields, _TIMED)
        if fields.get("status") == "error":
            error = fields.get("error")
            error = error if isinstance(error, dict) else {}
            span["status"] = {"code": ERROR, "message": str(error.get("message") or "")}
            span["attributes"] += attributes({"error.type": error.get("type")})
        elif fields.get("status") == "ok":
            span["status"] = {"code": OK}

    def _note(self, span_id: str, event: Event, fields: dict[str, Any], hidden: frozenset[str]) -> None:
        """What a beginning or an end says besides, each name once."""
        span = self._spans[span_id]
        told = {each["key"] for each in span["attributes"]}
        said = {**self.common, "dashcam.kind": event.kind, **{k: v for k, v in fields.items() if k not in hidden}}
        said |= span_attributes(span["name"], self.common["session.id"], fields)
        span["attributes"] += attributes({key: value for key, value in said.items() if key not in told})

    def _tell(self, span_id: str, event: Event, fields: dict[str, Any], at: int) -> None:
        """An event on its span; where that never began in this store, on the root, with the span's id."""
        told = {key: value for key, value in fields.items() if key not in _PLACED}
        told["dashcam.step"] = event.step
        span = self._spans.get(span_id)
        if span is None:
            span, told["dashcam.span_id"] = self._root, span_id
        span["events"].append({"timeUnixNano": str(at), "name": event.operation, "attributes": attributes(told)})

    def _id_of(self, span_id: Any) -> str:
        """The span's id; none is the root, one that OpenTelemetry doesn't take is derived."""
        if not isinstance(span_id, str) or not span_id:
            return root_span_id(self._trace_id)
        return span_id if is_otel_span_id(span_id) else derived_span_id(self._trace_id, span_id)


def _opening(store: Reader, session_id: str) -> bytes:
    """Who the spans are from, up to where they begin."""
    session = chat_session(store, session_id)
    resource = {"attributes": attributes({"service.name": (session and session.agent) or "dashcam"})}
    scope = {"name": "dashcam", "version": __version__}
    return b'{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[' % (_encode(resource), _encode(scope))


def _name(fields: dict[str, Any]) -> str:
    name = fields.get("name")
    return name if isinstance(name, str) and name else "span"

"""A trace as its spans: who called whom, when, for how long, and what each of them did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from dashcam.contracts.chat import Usage
from dashcam.contracts.score import Score
from dashcam.contracts.span import LogRecord, Span
from dashcam.dialects.otlp.decode import log_view, span_view
from dashcam.dialects.otlp.read import read
from dashcam.dialects.otlp.reading import EventView, LogView, Reading, SpanView
from dashcam.errors import NotFound
from dashcam.store.base import Reader, TraceSummary

_NS = 1_000_000  # a millisecond


class SpanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One span as a line: where it stands, and what it did. Times are milliseconds since the trace began."""

    span_id: str
    parent_span_id: str | None
    depth: int
    name: str
    kind: str  # model, tool, agent, retrieval, said or span
    at_ms: float
    duration_ms: float | None  # None: it has not ended
    status: str
    error: str | None = None
    model: str | None = None
    tool: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    dialect: str | None = None
    lost_parent: bool = False  # it names a parent that isn't here
    redacted: bool = False


class Waterfall(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of one trace, parents before their children, siblings by their start."""

    trace: TraceSummary
    spans: list[SpanRow]
    logs: int
    scores: list[Score] = []


class SpanDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One span with all that was sent of it."""

    row: SpanRow
    attributes: dict[str, Any]
    events: list[EventView]
    resource: dict[str, Any]
    scope: str
    start_ns: int
    end_ns: int
    status_message: str
    logs: list[LogView]


def load(store: Reader, trace_id: str) -> Waterfall:
    """The trace with this id, or with an id that begins so."""
    trace = store.trace(trace_id)
    return Waterfall(
        trace=trace, spans=list(rows(store, trace.trace_id)), logs=len(store.logs(trace.trace_id)),
        scores=store.scores(trace_id=trace.trace_id),
    )  # fmt: skip


def rows(store: Reader, trace_id: str) -> Iterator[SpanRow]:
    """The spans of a trace, each read when it is asked for: of 30,000 a page needs a few hundred."""
    spans = store.spans(trace_id)
    logs = by_span_id(log_view(record, store) for record in store.logs(trace_id))
    begun = min((span.start_ns for span in spans), default=0)
    known = {span.span_id for span in spans}
    for span, depth, lost in _ordered(spans):
        reading = read(span_view(span, store), logs.get(span.span_id, ()))
        if not (reading.pending and reading.stands_for in known):  # Logfire's word for a span that has come meanwhile
            yield _row(span, depth, begun, reading, lost)


def load_span(store: Reader, trace_id: str, span_id: str) -> SpanDetail:
    """One span of a trace."""
    trace = store.trace(trace_id)
    spans = store.spans(trace.trace_id)
    for span, depth, lost in _ordered(spans):
        if span.span_id == span_id:
            view = span_view(span, store)
            logs = [log_view(record, store) for record in _logs_of(store.logs(trace.trace_id), span_id)]
            begun = min(each.start_ns for each in spans)
            return _detail(view, logs, _row(span, depth, begun, read(view, logs), lost))
    raise NotFound(f"No span {span_id!r:.80} in trace {trace.trace_id}. List its spans with: dashcam trace {trace_id}")


def by_span_id(logs: Iterable[LogView]) -> dict[str, list[LogView]]:
    """The log records of each span."""
    found: dict[str, list[LogView]] = defaultdict(list)
    for log in logs:
        if log.span_id:
            found[log.span_id].append(log)
    return found


def _logs_of(logs: Sequence[LogRecord], span_id: str) -> list[LogRecord]:
    return [record for record in logs if record.span_id == span_id]


def _ordered(spans: Sequence[Span]) -> Iterable[tuple[Span, int, bool]]:
    """Parents before children, with their depth, and whether their parent is missing. Circles end."""
    known = {span.span_id for span in spans}
    children: dict[str | None, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: (span.start_ns, span.span_id), reverse=True):
        children[span.parent_span_id if span.parent_span_id in known else None].append(span)
    todo = [(span, 0) for span in children[None]]
    seen: set[str] = set()
    left = sorted(spans, key=lambda span: (span.start_ns, span.span_id), reverse=True)  # for circles, which have no top
    while todo or left:
        span, depth = todo.pop() if todo else (left.pop(), 0)
        if span.span_id in seen:
            continue
        seen.add(span.span_id)
        yield span, depth, bool(span.parent_span_id) and span.parent_span_id not in known
        todo += [(child, depth + 1) for child in children[span.span_id]]


def _row(span: Span, depth: int, begun: int, reading: Reading, lost_parent: bool) -> SpanRow:
    return SpanRow(
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        depth=depth,
        name=span.name,
        kind=reading.kind or "span",
        at_ms=(span.start_ns - begun) / _NS,
        duration_ms=(span.end_ns - span.start_ns) / _NS if span.end_ns else None,
        status=span.status,
        error=reading.error,
        model=reading.model if reading.kind == "model" else None,
        tool=reading.tool,
        usage=reading.usage,
        cost_usd=reading.cost_usd,
        dialect=reading.dialect,
        lost_parent=lost_parent,
        redacted=span.redacted,
    )


def _detail(view: SpanView, logs: list[LogView], row: SpanRow) -> SpanDetail:
    return SpanDetail(
        row=row,
        attributes=view.attributes,
        events=view.events,
        resource=view.resource,
        scope=view.scope,
        start_ns=view.start_ns,
        end_ns=view.end_ns,
        status_message=view.status_message,
        logs=logs,
    )

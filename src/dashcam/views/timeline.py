"""A run in the order of its steps, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dashcam.contracts.event import Event, iso_of
from dashcam.contracts.identity import MARKS
from dashcam.errors import NotFound, SessionNotFound, TraceNotFound
from dashcam.store.base import EventFilter, Reader

# Shown by their own columns, or only to machines.
_HIDDEN = frozenset((MARKS, "span_id", "parent_span_id", "started_at"))
# Where other programs say what their record is called, and when it happened: told by columns, too.
_ALIASES = frozenset(("event", "event_name", "type", "schema", "timestamp", "time"))
_USAGE = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read", "cache_write")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One record as a line of the timeline."""

    step: int
    at_ms: float  # since the first record of the trace
    operation: str
    depth: int  # how many spans it stands in
    fields: dict[str, Any]
    failed: bool
    marks: tuple[str, ...]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One trace, whole."""

    trace_id: str
    session_id: str
    kind: str
    started_at: str
    duration_ms: float
    steps: list[Step]
    shared_steps: int
    failures: int  # a failure that also ended the spans around it counts once
    unfinished: int  # spans that began and never ended
    cost_usd: float | None
    tokens: int | None
    records: list[dict[str, Any]]


def load(store: Reader, trace_id: str) -> Timeline:
    """The trace with this id, with the id under which it left as OTLP, or with an id that begins so."""
    summary = store.trace(trace_id)
    run = list(store.events(EventFilter(trace_id=summary.trace_id)))
    if not run:
        raise NotFound(f"Trace {summary.trace_id} has spans and no records. See them with: dashcam trace {trace_id}")
    return timeline_of(run)


def load_session(store: Reader, session_id: str, where: str) -> list[Timeline]:
    """Every trace of a session that has records of ours, the oldest first."""
    if not store.traces(session_id):
        raise SessionNotFound(session_id, where)
    return list(each_of(store, session_id))


def each_of(store: Reader, session_id: str) -> Iterator[Timeline]:
    """The same, one at a time; none where there is no such session."""
    for summary in store.traces(session_id):
        # By both ids: trace ids from outside are opaque, and two sessions may well use the same.
        if run := list(store.events(EventFilter(session_id=session_id, trace_id=summary.trace_id))):
            yield timeline_of(run)


def of_events(events: Sequence[Event], trace_id: str, where: str) -> Timeline:
    """The same from a list of events, without a store."""
    run = [event for event in events if event.trace_id == trace_id]
    if not run:
        raise TraceNotFound(trace_id, where)
    return timeline_of(run)


def session_of_events(events: Sequence[Event], session_id: str, where: str) -> list[Timeline]:
    mine = [event for event in events if event.session_id == session_id]
    if not mine:
        raise SessionNotFound(session_id, where)
    return [of_events(mine, trace_id, where) for trace_id in dict.fromkeys(event.trace_id for event in mine)]


def timeline_of(run: Sequence[Event]) -> Timeline:
    """The events of one trace as a timeline, in the order of their steps, then of their times."""
    run = sorted(run, key=lambda event: (event.step, event.ts, event.segment, event.offset))
    records = [event.as_record() for event in run]
    start, end = min(event.ts for event in run), max(event.ts for event in run)
    depths, unfinished = _depths(records)
    return Timeline(
        trace_id=run[0].trace_id,
        session_id=run[0].session_id,
        kind=run[0].kind,
        started_at=iso_of(start),
        duration_ms=(end - start) / 1000,
        steps=[
            _step(event, record, (event.ts - start) / 1000, depth, unfinished)
            for event, record, depth in zip(run, records, depths, strict=True)
        ],
        shared_steps=len(run) - len({event.step for event in run}),
        failures=_failures(run, records),
        unfinished=len(unfinished),
        cost_usd=_sum(run, records, ("cost", "usd"), ("model_call", "cost_usd")),
        tokens=_whole(_sum(run, records, *(("model_call", name) for name in _USAGE))),
        records=records,
    )


def _step(event: Event, record: dict[str, Any], at_ms: float, depth: int, unfinished: set[Any]) -> Step:
    fields = event.data()
    shown = {name: value for name, value in fields.items() if name not in _HIDDEN and name not in _ALIASES}
    # An alias that says something else than the columns is a field like any other.
    shown |= {name: fields[name] for name in _ALIASES & fields.keys() if not _is_told(name, fields[name], event)}
    marks = fields.get(MARKS)
    found = tuple(sorted(marks)) if isinstance(marks, dict) else ()
    if event.operation == "span_started" and _text(fields.get("span_id")) in unfinished:
        found += ("never ended",)
    return Step(
        step=event.step,
        at_ms=at_ms,
        operation=event.operation,
        depth=depth,
        fields=shown,
        failed=_failed(event.operation, record),
        marks=found,
    )


def _is_told(name: str, value: object, event: Event) -> bool:
    return name in ("timestamp", "time") or value == event.operation


def _failed(operation: str, record: Mapping[str, Any]) -> bool:
    if operation == "span_ended":
        return record.get("status") == "error"
    return operation == "error" or operation.endswith(("_failed", "_error")) or bool(record.get("error"))


def _failures(run: Sequence[Event], records: Sequence[Mapping[str, Any]]) -> int:
    """A tool that fails and lets its error end the spans around it has failed once."""
    told: set[Any] = set()  # spans in which the failure was told already
    count = 0
    for event, record in zip(run, records, strict=True):
        if not _failed(event.operation, record):
            continue
        if event.operation != "span_ended":
            count += 1
            told.add(_text(record.get("span_id")))
        else:
            count += _text(record.get("span_id")) not in told
            told.add(_text(record.get("parent_span_id")))
    return count


def _depths(records: Sequence[Mapping[str, Any]]) -> tuple[list[int], set[Any]]:
    """How deep each record stands (a span's own two at its outside), and the spans that never ended."""
    inside: dict[Any, int] = {}
    open_spans: set[Any] = set()
    depths = []
    for record in records:
        span, operation = _text(record.get("span_id")), record.get("operation")
        if operation == "span_started":
            inside[span] = inside.get(_text(record.get("parent_span_id")), 0) + 1
            open_spans.add(span)
        elif operation == "span_ended":
            open_spans.discard(span)
        depth = inside.get(span, 0)
        depths.append(depth - 1 if operation in ("span_started", "span_ended") and depth else depth)
    return depths, open_spans


def _sum(run: Sequence[Event], records: Sequence[Mapping[str, Any]], *told_by: tuple[str, str]) -> float | None:
    """The sum of what was told in these fields of these events; None when nothing was."""
    told = [
        record[name]
        for event, record in zip(run, records, strict=True)
        for operation, name in told_by
        if event.operation == operation and _is_amount(record.get(name))
    ]
    return sum(told) if told else None


def _text(value: object) -> str | None:
    """An id, if it is one: other programs may put anything there."""
    return value if isinstance(value, str) else None


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)

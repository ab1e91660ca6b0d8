"""A run in the order of its steps, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from dashcam.contracts.event import iso_of
from dashcam.contracts.identity import IDENTITY, MARKS
from dashcam.dialects.lines import operation_of, time_of
from dashcam.errors import SessionNotFound, TraceNotFound
from dashcam.store.base import EventFilter, Reader
from dashcam.views.joinability import run_of

# Shown by their own columns, or only to machines.
_HIDDEN = frozenset((*IDENTITY, MARKS, "span_id", "parent_span_id", "started_at"))
_FAILED = ("_failed", "error")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One record as a line of the timeline."""

    step: int | None
    at_ms: float | None  # since the first record of the trace
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
    started_at: str | None
    duration_ms: float
    steps: list[Step]
    shared_steps: int
    failed: int
    cost_usd: float | None
    tokens: int | None
    records: list[Mapping[str, Any]]


def load(store: Reader, trace_id: str) -> Timeline:
    """The trace with this id; also found by the id under which it left as OTLP."""
    summary = store.trace(trace_id)
    return timeline_of([event.as_record() for event in store.events(EventFilter(trace_id=summary.trace_id))])


def load_session(store: Reader, session_id: str, where: str) -> list[Timeline]:
    """Every trace of a session, the oldest first."""
    found = store.traces(session_id)
    if not found:
        raise SessionNotFound(session_id, where)
    return [load(store, summary.trace_id) for summary in found]


def of_records(records: Sequence[Mapping[str, Any]], trace_id: str, where: str) -> Timeline:
    """The same from a list of records, without a store."""
    run = run_of(records, trace_id)
    if not run:
        raise TraceNotFound(trace_id, where)
    return timeline_of(run)


def session_of_records(records: Sequence[Mapping[str, Any]], session_id: str, where: str) -> list[Timeline]:
    mine = [record for record in records if record.get("session_id") == session_id]
    if not mine:
        raise SessionNotFound(session_id, where)
    traces = dict.fromkeys(str(record.get("trace_id")) for record in mine)
    return [timeline_of(run_of(mine, trace_id)) for trace_id in traces]


def timeline_of(run: Sequence[Mapping[str, Any]]) -> Timeline:
    """A run's records, in step order, as a timeline."""
    times = [time_of(record) for record in run]
    known = [time for time in times if time is not None]
    start = min(known, default=0)
    depths = _depths(run)
    steps = [
        _step(record, None if time is None else (time - start) / 1000, depth)
        for record, time, depth in zip(run, times, depths, strict=True)
    ]
    first = run[0]
    return Timeline(
        trace_id=str(first.get("trace_id")),
        session_id=str(first.get("session_id")),
        kind=str(first.get("kind", "user")),
        started_at=iso_of(start) if known else None,
        duration_ms=(max(known) - start) / 1000 if known else 0.0,
        steps=steps,
        shared_steps=len(run) - len({record.get("step") for record in run}),
        failed=sum(step.failed for step in steps),
        cost_usd=_cost(run),
        tokens=_tokens(run),
        records=list(run),
    )


def _step(record: Mapping[str, Any], at_ms: float | None, depth: int) -> Step:
    operation = operation_of(record) or "record"
    marks = record.get(MARKS)
    step = record.get("step")
    return Step(
        step=step if isinstance(step, int) else None,
        at_ms=at_ms,
        operation=operation,
        depth=depth,
        fields={name: value for name, value in record.items() if name not in _HIDDEN and name != operation},
        failed=operation.endswith(_FAILED) or record.get("status") == "error" or bool(record.get("error")),
        marks=tuple(sorted(marks)) if isinstance(marks, dict) else (),
    )


def _depths(run: Iterable[Mapping[str, Any]]) -> list[int]:
    """How deep each record stands: a span's own two records at its outside, the others inside."""
    inside: dict[Any, int] = {}
    depths = []
    for record in run:
        span, operation = record.get("span_id"), record.get("operation")
        if operation == "span_started":
            inside[span] = inside.get(record.get("parent_span_id"), 0) + 1
        depth = inside.get(span, 0)
        depths.append(depth - 1 if operation in ("span_started", "span_ended") and depth else depth)
    return depths


def _cost(run: Sequence[Mapping[str, Any]]) -> float | None:
    """What the run cost: by its cost events, else by what its calls say. Both tell of the same money."""
    for operation, name in (("cost", "usd"), ("model_call", "cost_usd")):
        told = [record[name] for record in run if record.get("operation") == operation and _is_number(record.get(name))]
        if told:
            return float(sum(told))
    return None


def _tokens(run: Iterable[Mapping[str, Any]]) -> int | None:
    names = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read", "cache_write")
    calls = [record for record in run if record.get("operation") == "model_call"]
    told = [record[name] for record in calls for name in names if _is_number(record.get(name))]
    return int(sum(told)) if told else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def clock_of(iso: str) -> str:
    """A moment as people write it, in their own zone."""
    return datetime.fromisoformat(iso).astimezone().strftime("%Y-%m-%d %H:%M:%S")

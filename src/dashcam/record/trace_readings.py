"""The spans and log records of a trace, read by their dialects and assembled.

Some programs tell one model call twice: by a span, and by log records that stand in no trace. Their `response_id`
joins them: the span's trace tells the call, with what the records know of it, and the trace of the records leaves
it out. So each is judged again when the other grows.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dashcam.contracts.span import LogRecord, Span
from dashcam.dialects.otlp.decode import log_view, span_view
from dashcam.dialects.otlp.read import read, read_log
from dashcam.dialects.otlp.reading import LogView, Reading, SpanView
from dashcam.record.trace_steps import filled, steps_of, told_once
from dashcam.record.traces import LOGS_OF_SESSION, Judged, judge_steps
from dashcam.store.base import Reader

_Read = tuple[list[tuple[SpanView, Reading]], list[tuple[LogView, Reading]], set[str]]

_PLAIN = Reading(kind="span")
_TELL_TWICE = frozenset(("claude_code", "gemini_cli"))


def judge_spans(store: Reader, trace_id: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Judged:
    """Everything that follows from the spans and log records of one trace."""
    steps, loose, others = _read(store, trace_id, spans, logs)
    judged = judge_steps(trace_id, steps, loose, store)
    return msgspec.structs.replace(judged, others=others) if others else judged


def calls_in(store: Reader, trace_id: str) -> list[Reading]:
    """What the steps of a trace say that tell messages, each with all that is told of it."""
    steps, loose, _ = _read(store, trace_id, store.spans(trace_id), store.logs(trace_id))
    ordered, _ = steps_of(steps, loose)
    told_once(ordered)
    return [step.reading for step in ordered if step.tells_messages]


def _read(store: Reader, trace_id: str, spans: Sequence[Span], logs: Sequence[LogRecord]) -> _Read:
    """Spans with their log records, log records that say something by themselves, and traces that tell of the same."""
    of_span: dict[str, list[LogView]] = {}
    loose: list[tuple[LogView, Reading]] = []
    for log in (log_view(record, store) for record in logs):
        if log.span_id:
            of_span.setdefault(log.span_id, []).append(log)
        if (told := read_log(log)) is not None:
            loose.append((log, told))
    views = [span_view(span, store) for span in spans]
    steps = [(view, read(view, of_span.get(view.span_id, ()))) for view in views]
    others: set[str] = set()
    if trace_id.startswith(LOGS_OF_SESSION):
        loose, others = _without_told(store, trace_id, loose)
    elif any(reading.dialect in _TELL_TWICE for _, reading in steps):
        steps, others = _with_logs(store, steps)
    return steps, loose, others


def _with_logs(store: Reader, steps: list[tuple[SpanView, Reading]]) -> tuple[list[tuple[SpanView, Reading]], set[str]]:
    """The steps with what log records outside of any trace add, and the traces where those stand."""
    wanted = {reading.response_id for _, reading in steps if reading.kind == "model"} - {None}
    sessions = {reading.session_id for _, reading in steps if reading.session_id}
    told: dict[str, list[Reading]] = {}
    others: set[str] = set()
    for trace_id in [f"{LOGS_OF_SESSION}{session}" for session in sorted(sessions)] if wanted else ():
        for record in store.logs(trace_id):
            reading = read_log(log_view(record, store))
            if reading is not None and reading.response_id in wanted:
                told.setdefault(str(reading.response_id), []).append(reading)
                others.add(trace_id)
    return [(view, _filled(reading, told)) for view, reading in steps], others


def _filled(reading: Reading, told: dict[str, list[Reading]]) -> Reading:
    for other in told.get(reading.response_id or "", ()) if reading.kind == "model" else ():
        reading = filled(reading, other)
    return reading


def _without_told(
    store: Reader, trace_id: str, loose: list[tuple[LogView, Reading]]
) -> tuple[list[tuple[LogView, Reading]], set[str]]:
    """The log records, plain where a span tells the same, and the traces of those spans."""
    joined = {reading.response_id for _, reading in loose} - {None}
    if not joined:
        return loose, set()
    calls = store.model_calls(session_id=trace_id.removeprefix(LOGS_OF_SESSION))
    spans = {
        call.response_id: call.trace_id for call in calls if call.trace_id != trace_id and call.response_id in joined
    }
    kept = [(log, _PLAIN if reading.response_id in spans else reading) for log, reading in loose]
    return kept, set(spans.values())

"""A trace whole: its spans, and its records in step order."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dashcam.store.base import EventFilter, Reader, TraceSummary
from dashcam.views import waterfall
from dashcam.views.timeline import Timeline, timeline_of
from dashcam.views.waterfall import SpanRow


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in a trace, as far as it was told: by spans, by records of ours, or by both."""

    trace_id: str
    trace: TraceSummary
    timeline: Timeline | None = None  # None: there are no records of ours
    spans: list[SpanRow] = []


def load(store: Reader, trace_id: str) -> Story:
    """The trace with this id, or with an id that begins so."""
    return _story(store, store.trace(trace_id), EventFilter(trace_id=store.trace(trace_id).trace_id))


def each_of(store: Reader, session_id: str) -> Iterator[Story]:
    """The traces of a session, the oldest first."""
    for trace in store.traces(session_id):
        # By both ids: trace ids from outside are opaque, and two sessions may well use the same.
        yield _story(store, trace, EventFilter(session_id=session_id, trace_id=trace.trace_id))


def _story(store: Reader, trace: TraceSummary, wanted: EventFilter) -> Story:
    run = list(store.events(wanted))
    spans = list(waterfall.rows(store, trace.trace_id)) if trace.spans else []
    return Story(trace_id=trace.trace_id, trace=trace, timeline=timeline_of(run) if run else None, spans=spans)

"""/api/traces: what `dashcam traces` and `trace` show."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get
from litestar.params import Parameter

from dashcam.contracts.event import Event
from dashcam.contracts.score import Score
from dashcam.dialects.otlp.decode import log_view
from dashcam.dialects.otlp.reading import LogView
from dashcam.server.api.common import (
    FULL,
    Cursor,
    Limit,
    Page,
    Text,
    check_cursor,
    counted,
    counted_as,
    keyed,
    place_of,
    routes,
    store_of,
)
from dashcam.store.base import EventFilter, Reader, TraceFilter, TraceSummary
from dashcam.views import story, waterfall
from dashcam.views.story import Story
from dashcam.views.waterfall import SpanDetail, SpanRow
from dashcam.views.when import millis_of

LOOK, MOST_SEEN = 1000, 20_000  # records at a time, and for one page


@get("/traces", sync_to_thread=True, summary="List traces, the newest first")
def list_traces(
    request: Request[Any, Any, Any],
    session_id: Text = None,
    since: Annotated[str | None, Parameter(max_length=50, description="Begun since: a date, a time, `7d`.")] = None,
    until: Annotated[str | None, Parameter(max_length=50)] = None,
    has_error: bool | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[TraceSummary]:
    wanted = TraceFilter(
        session_id=session_id, since=millis_of(since), until=millis_of(until), has_error=has_error, limit=limit + 1,
        after=cursor or "",
    )  # fmt: skip
    with store_of(request) as store:
        check_cursor(store.trace, cursor)
        return keyed(store.trace_list(wanted), limit, lambda each: each.trace_id, lambda each: each)


@get("/traces/{trace_id:str}", sync_to_thread=True, summary="One trace at a glance")
def get_trace(request: Request[Any, Any, Any], trace_id: str) -> TraceSummary:
    with store_of(request) as store:
        return store.trace(trace_id)


@get("/traces/{trace_id:str}/spans", sync_to_thread=True, summary="Its spans, parents before their children")
def list_spans(
    request: Request[Any, Any, Any], trace_id: str, limit: Limit = 500, cursor: Cursor = None
) -> Page[SpanRow]:
    with store_of(request) as store:
        return counted(waterfall.rows(store, store.trace(trace_id).trace_id), limit, cursor)


@get("/traces/{trace_id:str}/spans/{span_id:str}", sync_to_thread=True, summary="One span with all that was sent of it")
def get_span(request: Request[Any, Any, Any], trace_id: str, span_id: str) -> SpanDetail:
    with store_of(request) as store:
        return waterfall.load_span(store, trace_id, span_id)


@get("/traces/{trace_id:str}/logs", sync_to_thread=True, summary="Its log records")
def list_logs(
    request: Request[Any, Any, Any], trace_id: str, limit: Limit = 200, cursor: Cursor = None
) -> Page[LogView]:
    with store_of(request) as store:
        records = store.logs(store.trace(trace_id).trace_id)
        return counted((log_view(record, store) for record in records), limit, cursor)


@get("/traces/{trace_id:str}/scores", sync_to_thread=True, summary="What was thought of it")
def list_trace_scores(
    request: Request[Any, Any, Any], trace_id: str, limit: Limit = 200, cursor: Cursor = None
) -> Page[Score]:
    with store_of(request) as store:
        return counted(iter(store.scores(trace_id=store.trace(trace_id).trace_id)), limit, cursor)


@get(
    "/traces/{trace_id:str}/timeline", sync_to_thread=True, summary="The trace whole: spans, and records in step order"
)
def get_timeline(request: Request[Any, Any, Any], trace_id: str) -> Story:
    with store_of(request) as store:
        return story.load(store, trace_id)


@get(
    "/events",
    sync_to_thread=True,
    summary="Records of our own SDK: of a session or a trace in order, else as they arrived",
)
def list_events(
    request: Request[Any, Any, Any],
    session_id: Text = None,
    trace_id: Text = None,
    operation: Text = None,
    kind: Text = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[dict[str, Any]]:
    wanted = EventFilter(session_id=session_id, trace_id=trace_id, operation=operation, kind=kind)
    with store_of(request) as store:
        if session_id is None and trace_id is None:
            return _arrived(store, wanted, limit, cursor)
        return counted_as(store.events(wanted), limit, cursor, Event.as_record)


def _arrived(store: Reader, wanted: EventFilter, limit: int, cursor: str | None) -> Page[dict[str, Any]]:
    """Of all sessions, as they arrived: to order a whole log by anything else would take a while.

    So many records are looked at for a page, and where few are wanted it is a short one.
    """
    found: list[dict[str, Any]] = []
    after, seen, size = str(place_of(cursor)), 0, 0
    while seen < MOST_SEEN:
        records = store.changes(after, limit=LOOK).records
        if not records:
            return Page(items=found)
        for record in records:
            if isinstance(record, Event) and _is_wanted(record, wanted):
                found.append(record.as_record())
                size += len(record.fields)
            if len(found) == limit or size > FULL:
                return Page(items=found, next=str(record.seq))
        after, seen = str(records[-1].seq), seen + len(records)
    return Page(items=found, next=after)


def _is_wanted(event: Event, wanted: EventFilter) -> bool:
    return wanted.operation in (None, event.operation) and wanted.kind in (None, event.kind)


ROUTES = routes(
    "traces", list_traces, get_trace, list_spans, get_span, list_logs, list_trace_scores, get_timeline, list_events,
)  # fmt: skip

"""/api/traces: what `dashcam traces` and `trace` show."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Request, get
from litestar.params import Parameter

from dashcam.contracts.score import Score
from dashcam.dialects.otlp.decode import log_view
from dashcam.dialects.otlp.reading import LogView
from dashcam.server.api.common import Cursor, Limit, Page, Text, counted, page_of, store_of
from dashcam.store.base import EventFilter, TraceFilter, TraceSummary
from dashcam.views import timeline, waterfall
from dashcam.views.waterfall import SpanDetail, SpanRow
from dashcam.views.when import millis_of


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
        found = store.trace_list(wanted)
        return page_of(found, limit, found[limit - 1].trace_id if len(found) >= limit else None)


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


@get("/traces/{trace_id:str}/timeline", sync_to_thread=True, summary="Its records in step order")
def get_timeline(request: Request[Any, Any, Any], trace_id: str) -> timeline.Timeline:
    with store_of(request) as store:
        return timeline.load(store, trace_id)


@get("/events", sync_to_thread=True, summary="Records of our own SDK, in order")
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
        page = counted(store.events(wanted), limit, cursor)
        return Page(items=[event.as_record() for event in page.items], next=page.next)


ROUTES = (
    list_traces, get_trace, list_spans, get_span, list_logs, list_trace_scores, get_timeline, list_events,
)  # fmt: skip

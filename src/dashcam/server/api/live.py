"""/api/live: what is being recorded, as it is recorded, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.params import Parameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.span import LogRecord
from dashcam.errors import SettingsError
from dashcam.server.api.common import Text, store_of
from dashcam.store.base import Reader, Record

PAUSE = 0.3  # seconds between two looks at the log
QUIET = 15.0  # seconds after which a comment keeps the connection open
CHUNK = 500  # records a look

_encode = msgspec.json.Encoder().encode


class LiveFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records: what is None does not narrow."""

    session_id: str | None = None
    trace_id: str | None = None
    type: str | None = None  # event, span, log or orphan
    operation: str | None = None  # an event's operation, a span's or a log's name


@get("/live", summary="What is being recorded (server-sent events); goes on from Last-Event-ID")
async def live(
    request: Request[Any, Any, Any],
    session_id: Text = None,
    trace_id: Text = None,
    type_: Annotated[str | None, Parameter(query="type", description="event, span, log or orphan.")] = None,
    operation: Text = None,
    since: Annotated[
        str | None, Parameter(max_length=20, description="Go on from this id; from now on without it.")
    ] = None,
    last_event_id: Annotated[str | None, Parameter(header="Last-Event-ID", max_length=20)] = None,
) -> ServerSentEvent:
    wanted = LiveFilter(session_id=session_id, trace_id=trace_id, type=type_, operation=operation)
    after = _cursor(last_event_id or since)
    if after is None:
        after = await asyncio.to_thread(_newest, request)
    else:
        await asyncio.to_thread(_newest, request)  # who may not read is told so before the stream begins
    return ServerSentEvent(_follow(request, wanted, after))


async def _follow(
    request: Request[Any, Any, Any], wanted: LiveFilter, after: str
) -> AsyncIterator[ServerSentEventMessage]:
    """Record after record; the id of each is where to go on from."""
    silent = 0.0
    server = request.app.state.server
    while not server.draining:
        told, cursor = await asyncio.to_thread(_look, request, wanted, after)
        for seq, kind, document in told:
            yield ServerSentEventMessage(id=str(seq), event=kind, data=_encode(document).decode())
        silent = 0.0 if told else silent + PAUSE
        if silent >= QUIET:
            silent = 0.0
            # With the cursor, so that who filters much doesn't have to read it all again.
            yield ServerSentEventMessage(id=cursor, event="ping", data="{}")
        if cursor == after:
            await asyncio.sleep(PAUSE)
        after = cursor


def _look(request: Request[Any, Any, Any], wanted: LiveFilter, after: str) -> tuple[list[tuple[int, str, Any]], str]:
    with store_of(request) as store:
        found = store.changes(after, limit=CHUNK)
        sessions: dict[str, set[str]] = {}
        told = []
        for record in found.records:
            kind, document = document_of(record)
            if _is_wanted(store, wanted, kind, document, sessions):
                told.append((record.seq, kind, document))
        return told, found.cursor


def document_of(record: Record) -> tuple[str, dict[str, Any]]:
    """What is told of a record: an event whole, of spans and log records what a line needs."""
    if isinstance(record, Event):
        return "event", record.as_record()
    if isinstance(record, Orphan):
        return "orphan", {"segment": record.segment, "offset": record.offset, "reason": record.reason,
                          "operation": record.operation, "ts": record.ts}  # fmt: skip
    if isinstance(record, LogRecord):
        names: tuple[str, ...] = ("trace_id", "span_id", "ts", "name", "severity")
        return "log", {name: getattr(record, name) for name in names}
    names = ("trace_id", "span_id", "parent_span_id", "name", "start_ns", "end_ns", "status")
    return "span", {name: getattr(record, name) for name in names}


def _is_wanted(
    store: Reader, wanted: LiveFilter, kind: str, document: dict[str, Any], sessions: dict[str, set[str]]
) -> bool:
    if wanted.type not in (None, kind) or wanted.trace_id not in (None, document.get("trace_id")):
        return False
    if wanted.operation not in (None, document.get("operation"), document.get("name")):
        return False
    if wanted.session_id is None or wanted.session_id == document.get("session_id"):
        return True
    trace_id = document.get("trace_id")
    if kind not in ("span", "log") or not trace_id:
        return False
    # The session of a span is computed, so it is known once its trace has been projected.
    known = sessions.setdefault(wanted.session_id, {each.trace_id for each in store.traces(wanted.session_id)})
    return trace_id in known


def _newest(request: Request[Any, Any, Any]) -> str:
    with store_of(request) as store:
        return str(store.lag().seq)


def _cursor(given: str | None) -> str | None:
    if given is None or given == "":
        return None
    if not (given.isascii() and given.isdigit()):
        raise SettingsError(f"{given!r:.40} is no id of this stream. Leave it out to begin from now on.")
    return given


ROUTES = (live,)

"""/api/live: what is being recorded, as it is recorded, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.params import Parameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from dashcam.contracts.event import Event, Orphan
from dashcam.contracts.span import LogRecord
from dashcam.errors import DashcamError
from dashcam.server.api.common import Text, caller_of, place_of, routes, store_of
from dashcam.server.api.encoding import encode
from dashcam.server.logs import tell
from dashcam.store.base import Reader, Record

PAUSE = 0.3  # seconds between two looks at the log
QUIET = 15.0  # seconds after which a comment keeps the connection open
CHUNK = 500  # records a look


class Pulse:
    """The newest record of each project, looked up once for all who wait for it, however many they are."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, str]] = {}  # by project: when, and the newest id then
        self._looking: dict[str, asyncio.Lock] = {}

    async def newest(self, request: Request[Any, Any, Any]) -> str:
        """As of a moment ago. Who may not read is told so."""
        project = caller_of(request).project
        async with self._looking.setdefault(project, asyncio.Lock()):
            when, seq = self._seen.get(project, (0.0, ""))
            if monotonic() - when >= PAUSE or not seq:
                seq = await asyncio.to_thread(_newest, request)
                self._seen[project] = monotonic(), seq
            return seq


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
    given = last_event_id or since
    start = place_of(given) if given else None
    # Who may not read is told so before the stream begins. An id that is yet to come is one of another store.
    newest = await asyncio.to_thread(_newest, request)
    return ServerSentEvent(_follow(request, wanted, newest if start is None else str(min(start, int(newest)))))


async def _follow(
    request: Request[Any, Any, Any], wanted: LiveFilter, after: str
) -> AsyncIterator[ServerSentEventMessage]:
    """Record after record; the id of each is where to go on from."""
    silent = 0.0
    server = request.app.state.server
    pulse = request.app.state.setdefault("pulse", Pulse())
    # At once, so that who listens knows that somebody speaks.
    yield ServerSentEventMessage(data=None, comment="recording")
    try:
        while not server.draining:
            if await pulse.newest(request) == after:
                told: list[tuple[int, str, Any]] = []
                cursor = after
            else:
                told, cursor = await asyncio.to_thread(_look, request, wanted, after)
            for seq, kind, document in told:
                yield ServerSentEventMessage(id=str(seq), event=kind, data=encode(document).decode())
            silent = 0.0 if told else silent + PAUSE
            if silent >= QUIET:
                silent = 0.0
                # With the cursor, so that who filters much doesn't have to read it all again.
                yield ServerSentEventMessage(id=cursor, event="ping", data="{}")
            if cursor == after:
                await asyncio.sleep(PAUSE)
            after = cursor
    except DashcamError as error:  # its key was revoked, the store can't be read: whoever comes back is told
        tell("live stream ended", error=error)


def _look(request: Request[Any, Any, Any], wanted: LiveFilter, after: str) -> tuple[list[tuple[int, str, Any]], str]:
    with store_of(request) as store:
        known = store.lag().projected  # before looking: what comes in between is for the next time
        found = store.changes(after, limit=CHUNK)
        sessions: dict[str, set[str]] = {}
        told: list[tuple[int, str, Any]] = []
        cursor = after
        for record in found.records:
            if wanted.session_id is not None and record.seq > known:
                return told, cursor  # the session of a span is known once its trace is projected
            kind, document = document_of(record)
            if _is_wanted(store, wanted, kind, document, sessions):
                told.append((record.seq, kind, document))
            cursor = str(record.seq)
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


ROUTES = routes("live", live)

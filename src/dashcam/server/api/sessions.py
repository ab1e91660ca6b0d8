"""/api/sessions: what `dashcam sessions`, `show`, `session` and `diff` show."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.params import Parameter

from dashcam.contracts.call import ModelCall
from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.contracts.score import Score
from dashcam.errors import SessionNotFound, SettingsError
from dashcam.server.api.common import (
    Cursor,
    Limit,
    Page,
    Text,
    check_cursor,
    counted,
    counted_as,
    keyed,
    routes,
    store_of,
)
from dashcam.store.base import Reader, SessionFilter, SessionSummary, TraceSummary
from dashcam.views import context, diff, story
from dashcam.views.context import TurnView
from dashcam.views.diff import SessionDiff
from dashcam.views.story import Story
from dashcam.views.when import millis_of

_STATES = ("busy", "idle", "error")


class Session(ChatSession, frozen=True, kw_only=True):
    """A row of `chat_sessions`, and what is counted beside it. Of a session without chat rows the columns are empty."""

    kind: str = "user"
    status: str = "idle"
    title: str = ""
    turns: int = 0
    messages: int = 0
    errors: int = 0
    traces: int = 0
    events: int = 0
    first_at: int = 0
    last_at: int = 0


class Message(ChatMessage, frozen=True, kw_only=True):
    """A row of `chat_messages` with its rows of `chat_parts`."""

    parts: list[ChatPart]


@get("/sessions", sync_to_thread=True, summary="List sessions, the most recently active first")
def list_sessions(
    request: Request[Any, Any, Any],
    agent: Text = None,
    model: Annotated[str | None, Parameter(max_length=500, description="A part of `provider:model`.")] = None,
    since: Annotated[str | None, Parameter(max_length=50, description="Active since: a date, a time, `7d`.")] = None,
    until: Annotated[str | None, Parameter(max_length=50)] = None,
    status: Annotated[str | None, Parameter(description="busy, idle or error.")] = None,
    text: Annotated[str | None, Parameter(max_length=500, description="Words that one of its parts holds.")] = None,
    has_error: bool | None = None,
    min_cost: float | None = None,
    parent: Text = None,
    kind: Annotated[str, Parameter(max_length=200, description="user, system, system:SOURCE or all.")] = "user",
    archived: bool = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Session]:
    if status is not None and status not in _STATES:
        raise SettingsError(f"{status!r:.40} is no status. Choose from: {', '.join(_STATES)}.")
    wanted = SessionFilter(
        kind=None if kind == "all" else kind, agent=agent, model=model, since=millis_of(since), until=millis_of(until),
        status=status, text=text, has_error=has_error, min_cost=min_cost, parent=parent, archived=archived,
        limit=limit + 1, after=cursor or "",
    )  # fmt: skip
    with store_of(request) as store:
        check_cursor(lambda each: _summary(store, each), cursor)
        return keyed(store.sessions(wanted), limit, lambda each: each.session_id, lambda each: _session(store, each))


@get("/sessions/{session_id:str}", sync_to_thread=True, summary="One session")
def get_session(request: Request[Any, Any, Any], session_id: str) -> Session:
    with store_of(request) as store:
        return _session(store, _summary(store, session_id))


@get("/sessions/{session_id:str}/messages", sync_to_thread=True, summary="Its messages, as they were said")
def list_messages(
    request: Request[Any, Any, Any], session_id: str, limit: Limit = 100, cursor: Cursor = None
) -> Page[Message]:
    with store_of(request) as store:
        _summary(store, session_id)
        return counted_as(store.chat_messages(session_id), limit, cursor, lambda message: _message(store, message))


@get("/sessions/{session_id:str}/parts", sync_to_thread=True, summary="The parts of its messages, in order")
def list_parts(
    request: Request[Any, Any, Any], session_id: str, limit: Limit = 200, cursor: Cursor = None
) -> Page[ChatPart]:
    with store_of(request) as store:
        _summary(store, session_id)
        return counted(store.chat_parts(session_id), limit, cursor)


@get("/sessions/{session_id:str}/turns", sync_to_thread=True, summary="Turn by turn, as `dashcam show` has it")
def list_turns(
    request: Request[Any, Any, Any], session_id: str, limit: Limit = 50, cursor: Cursor = None
) -> Page[TurnView]:
    with store_of(request) as store:
        return counted(context.load(store, session_id), limit, cursor)


@get("/sessions/{session_id:str}/turns/{number:int}", sync_to_thread=True, summary="One turn, beside the one before")
def get_turn(request: Request[Any, Any, Any], session_id: str, number: int) -> TurnView:
    with store_of(request) as store:
        return context.load_turn(store, session_id, number)


@get("/sessions/{session_id:str}/calls", sync_to_thread=True, summary="Its model calls")
def list_calls(
    request: Request[Any, Any, Any], session_id: str, limit: Limit = 200, cursor: Cursor = None
) -> Page[ModelCall]:
    with store_of(request) as store:
        _summary(store, session_id)
        return counted(iter(store.model_calls(session_id=session_id)), limit, cursor)


@get("/sessions/{session_id:str}/traces", sync_to_thread=True, summary="Its traces, the oldest first")
def list_session_traces(
    request: Request[Any, Any, Any], session_id: str, limit: Limit = 200, cursor: Cursor = None
) -> Page[TraceSummary]:
    with store_of(request) as store:
        _summary(store, session_id)
        return counted(iter(store.traces(session_id)), limit, cursor)


@get(
    "/sessions/{session_id:str}/timeline",
    sync_to_thread=True,
    summary="Its traces whole: spans, and records in step order",
)
def list_timelines(
    request: Request[Any, Any, Any], session_id: str, limit: Limit = 20, cursor: Cursor = None
) -> Page[Story]:
    with store_of(request) as store:
        _summary(store, session_id)
        return counted(story.each_of(store, session_id), limit, cursor)


@get("/sessions/{session_id:str}/scores", sync_to_thread=True, summary="What was thought of its answers")
def list_scores(
    request: Request[Any, Any, Any], session_id: str, limit: Limit = 200, cursor: Cursor = None
) -> Page[Score]:
    with store_of(request) as store:
        _summary(store, session_id)
        return counted(iter(store.scores(session_id=session_id)), limit, cursor)


@get("/diff", sync_to_thread=True, summary="Two sessions beside each other, turn by turn")
def get_diff(
    request: Request[Any, Any, Any],
    a: Annotated[str, Parameter(min_length=1, max_length=2000)],
    b: Annotated[str, Parameter(min_length=1, max_length=2000)],
) -> SessionDiff:
    with store_of(request) as store:
        return diff.load(store, a, b)


def _summary(store: Reader, session_id: str) -> SessionSummary:
    found = store.sessions(SessionFilter(session_id=session_id, kind=None, archived=True))
    if not found:
        raise SessionNotFound(session_id, "this project")
    return found[0]


def _session(store: Reader, summary: SessionSummary) -> Session:
    try:
        row = store.chat_session(summary.session_id)
    except SessionNotFound:
        row = ChatSession(
            id=summary.session_id, agent="", created_at=summary.first_at, updated_at=max(summary.last_at, 0)
        )  # fmt: skip
    counts = {
        name: getattr(summary, name) for name in Session.__struct_fields__ if name not in ChatSession.__struct_fields__
    }
    return Session(**msgspec.structs.asdict(row), **counts)


def _message(store: Reader, message: ChatMessage) -> Message:
    parts = list(store.chat_parts(message.session_id, message.id))
    return Message(**msgspec.structs.asdict(message), parts=parts)


ROUTES = routes(
    "sessions", list_sessions, get_session, list_messages, list_parts, list_turns, get_turn, list_calls, list_session_traces,
    list_timelines, list_scores, get_diff,
)  # fmt: skip

"""Reading chat rows, in the order in which they were said, and the list of sessions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from typing import Any

from dashcam.contracts.chat import ROLLUPS, ChatMessage, ChatPart, ChatSession, Usage
from dashcam.errors import SessionNotFound
from dashcam.store.base import SessionFilter, SessionSummary
from dashcam.store.sqlite.rows import row_from, select_of
from dashcam.store.sqlite.search import MATCHES, query_of

FRESH = 60_000  # milliseconds without a word after which an open turn counts as broken off

_STATUS = (
    "CASE f.state WHEN 'failed' THEN 'error' WHEN 'open' THEN iif(f.last_at >= :fresh, 'busy', 'error') "
    "WHEN 'asked' THEN iif(f.last_at >= :fresh, 'busy', 'idle') ELSE 'idle' END"
)
_COLUMNS = {
    "session_id": "f.session_id", "kind": "f.kind", "agent": "s.agent", "provider": "f.provider", "model": "f.model",
    "status": _STATUS, "title": "f.title", "turns": "f.turns", "messages": "f.messages", "errors": "f.errors",
    "cost_usd": "s.cost_usd", "parent_id": "s.parent_id", "archived": "s.archived_at IS NOT NULL", "traces": "f.traces",
    "events": "f.events", "first_at": "f.first_at", "last_at": "f.last_at",
}  # fmt: skip
_FROM = "FROM session_facts AS f LEFT JOIN chat_sessions AS s ON s.id = f.session_id"
# What each field of a filter asks for, where it is given.
_WHERE = {
    "session_id": "f.session_id = :session_id",
    "agent": "s.agent = :agent",
    "model": "instr(lower(coalesce(f.provider, '') || ':' || coalesce(f.model, '')), lower(:model))",
    "since": "f.last_at >= :since",
    "until": "f.last_at <= :until",
    "status": f"{_STATUS} = :status",
    "has_error": f"(f.errors > 0 OR {_STATUS} = 'error') = :has_error",
    "min_cost": "s.cost_usd >= :min_cost",
    "parent": "s.parent_id = :parent",
    "text": f"f.session_id IN (SELECT p.session_id FROM {MATCHES})",
}
_AFTER = "(f.last_at, f.session_id) < (SELECT last_at, session_id FROM session_facts WHERE session_id = :after)"


def chat_session(connection: sqlite3.Connection, session_id: str, where: str) -> ChatSession:
    row = connection.execute(f"{select_of(ChatSession)} WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise SessionNotFound(session_id, where)
    return row_from(ChatSession, row)


def chat_messages(connection: sqlite3.Connection, session_id: str) -> Iterator[ChatMessage]:
    """The messages of a session as they were said."""
    query = f"{select_of(ChatMessage)} WHERE session_id = ? ORDER BY created_at, id"
    for row in connection.execute(query, (session_id,)):
        yield row_from(ChatMessage, row)


def chat_parts(connection: sqlite3.Connection, session_id: str, message_id: str | None) -> Iterator[ChatPart]:
    """The parts of a session, or of one of its messages, as they were said."""
    query = f"{select_of(ChatPart, 'chat_parts_ordered')} WHERE session_id = ?"
    given = [session_id]
    if message_id is not None:
        # The + keeps SQLite from going through the whole session.
        query = f'{select_of(ChatPart)} WHERE +session_id = ? AND message_id = ? ORDER BY "index", id'
        given.append(message_id)
    for row in connection.execute(query, given):
        yield row_from(ChatPart, row)


def sessions(connection: sqlite3.Connection, wanted: SessionFilter) -> list[SessionSummary]:
    """Sessions with chat rows and sessions with events alone, the most recently active first."""
    where, given = _conditions(wanted)
    if wanted.kind is not None:
        where.append("f.kind GLOB 'system:*'" if wanted.kind == "system" else "f.kind = :kind")
    if wanted.after:
        where.append(_AFTER)
    columns = ", ".join((*_COLUMNS.values(), *(f"coalesce(s.{name}, 0)" for name in ROLLUPS)))
    found = connection.execute(
        f"SELECT {columns} {_FROM} WHERE {' AND '.join(where)} ORDER BY f.last_at DESC, f.session_id DESC LIMIT :limit",
        given | {"kind": wanted.kind, "after": wanted.after, "limit": max(wanted.limit, 0)},
    )
    return [_summary(row) for row in found]


def session_kinds(connection: sqlite3.Connection, wanted: SessionFilter) -> dict[str, int]:
    """How many sessions of each kind there are that match the filter, whatever kind and page it asks for."""
    where, given = _conditions(wanted)
    query = f"SELECT f.kind, count(*) {_FROM} WHERE {' AND '.join(where)} GROUP BY f.kind ORDER BY f.kind"
    return dict(connection.execute(query, given).fetchall())


def _conditions(wanted: SessionFilter) -> tuple[list[str], dict[str, Any]]:
    given = {name: value for name in _WHERE if (value := getattr(wanted, name)) is not None}
    where = ["1" if wanted.archived else "s.archived_at IS NULL", *(_WHERE[name] for name in given)]
    if wanted.text is not None:
        given["words"] = query_of(wanted.text)
        where += [] if given["words"] else ["0"]
    return where, given | {"fresh": time.time_ns() // 1_000_000 - FRESH}


def _summary(row: tuple[Any, ...]) -> SessionSummary:
    told = dict(zip(_COLUMNS, row, strict=False))
    usage = Usage(**dict(zip(ROLLUPS.values(), row[len(_COLUMNS) :], strict=True)))
    return SessionSummary(**{**told, "archived": bool(told["archived"]), "usage": usage})

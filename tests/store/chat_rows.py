"""Chat rows for the store's tests, each whole, with what a test says changed. Times are milliseconds."""

from __future__ import annotations

from typing import Any

import msgspec
from records import NOW

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatRow, ChatSession, PartDelta
from dashcam.store.sqlite.store import SqliteStore

AT = NOW // 1000
TABLES = ("chat_sessions", "chat_messages", "chat_parts", "chat_texts", "session_facts", "session_traces")


def session(session_id: str = "s", **given: Any) -> ChatSession:
    return ChatSession(**{"id": session_id, "agent": "helper", "created_at": AT, "updated_at": AT, **given})


def message(message_id: str, role: str = "assistant", metadata: object = None, **given: Any) -> ChatMessage:
    told = {"id": message_id, "session_id": "s", "role": role, "created_at": AT, "updated_at": AT}
    return ChatMessage(**{**told, "metadata_json": msgspec.json.encode(metadata or {}).decode(), **given})


def part(part_id: str, message_id: str = "m", data: object = None, **given: Any) -> ChatPart:
    told = {"id": part_id, "message_id": message_id, "session_id": "s", "index": 0, "type": "text"}
    told |= {"data_json": msgspec.json.encode(data or {"type": "text", "text": ""}).decode()}
    return ChatPart(**{**told, "created_at": AT, "updated_at": AT, **given})


def text(part_id: str, words: str, message_id: str = "m", **given: Any) -> ChatPart:
    return part(part_id, message_id, {"type": "text", "text": words}, **given)


def delta(at: int, words: str, part_id: str = "p", **given: Any) -> PartDelta:
    return PartDelta(**{"session_id": "s", "part_id": part_id, "at": at, "text": words, "updated_at": AT, **given})


def turn(session_id: str, at: int, *, question: str = "why?", **metadata: Any) -> list[ChatRow]:
    """A session with one question and its answer."""
    told = {"session_id": session_id, "created_at": at, "updated_at": at}
    ended = {"stop_reason": "stop", "usage": {"input": 10, "output": 2}, "cost_usd": 0.5, **metadata}
    return [
        session(session_id, created_at=at, updated_at=at),
        message(f"{session_id}.1", "user", **told),
        text(f"{session_id}.1.1", question, f"{session_id}.1", **told),
        message(f"{session_id}.2", "assistant", ended, **{**told, "created_at": at + 1}),
        text(f"{session_id}.2.1", "because", f"{session_id}.2", **told),
    ]


def dump(store: SqliteStore) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the tables that chat sessions are kept in, and every word of the index."""
    tables = {name: store._connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in TABLES}
    return tables | {"words": words(store)}


def words(store: SqliteStore) -> list[tuple[Any, ...]]:
    connection = store._connection
    connection.execute("CREATE VIRTUAL TABLE temp.said USING fts5vocab (main, chat_search, instance)")
    found = connection.execute("SELECT part_id, offset, term FROM temp.said JOIN chat_texts ON id = doc").fetchall()
    connection.execute("DROP TABLE temp.said")
    return sorted(found)

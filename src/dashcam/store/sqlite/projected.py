"""Chat rows that are projected from traces, beside those that a recorder or an import told.

A session is told either by its recorder or by its traces: where a recorder's rows come in, projected ones give way.
Works inside the transaction that the caller holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import msgspec

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatSession
from dashcam.store.base import Piece, Projection
from dashcam.store.sqlite import backlog, facts, search
from dashcam.store.sqlite.chat_merge import merged_objects
from dashcam.store.sqlite.rows import load, upsert
from dashcam.store.sqlite.statements import chunks, insert_rows, marks

ORIGIN = "otlp"
_SESSION_BY = ("attribute", "trace", "context", "none")  # the surest first
_PIECES = f"SELECT {', '.join(Piece.__struct_fields__)} FROM projected_traces WHERE session_id = ? ORDER BY first_at, trace_id"
_ROW = "agent, model_json, metadata_json, created_at, updated_at"
_PUT_SESSION = (
    f"INSERT INTO chat_sessions (id, {_ROW}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET ({_ROW}) = "
    "(excluded.agent, excluded.model_json, excluded.metadata_json, excluded.created_at, excluded.updated_at)"
)
_RECORDED = (
    "SELECT id FROM chat_sessions AS s WHERE id IN ({ids}) "
    "AND NOT EXISTS (SELECT 1 FROM projected_sessions AS p WHERE p.session_id = s.id)"
)
_WRITERS = "SELECT message_id, min(trace_id) FROM projected_messages WHERE message_id IN ({ids}) GROUP BY message_id"


def recorded(connection: sqlite3.Connection, session_ids: Iterable[str]) -> set[str]:
    """Those of the sessions that a recorder or an import tells."""
    found: set[str] = set()
    for chunk in chunks(sorted(session_ids)):
        found |= {each for (each,) in connection.execute(_RECORDED.format(ids=marks(chunk)), chunk)}
    return found


def give_way(connection: sqlite3.Connection, session_ids: Iterable[str]) -> None:
    """Take out what is projected of these sessions: their recorder tells them from now on."""
    for chunk in chunks(sorted(session_ids)):
        query = f"SELECT session_id FROM projected_sessions WHERE session_id IN ({marks(chunk)})"
        for (session_id,) in connection.execute(query, chunk).fetchall():
            _remove_session(connection, session_id)
            mark_session(connection, session_id)


def mark_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Have the traces of a session projected again."""
    traces = connection.execute("SELECT trace_id FROM projected_traces WHERE session_id = ?", (session_id,))
    backlog.mark(connection, [trace_id for (trace_id,) in traces.fetchall()])


def write(connection: sqlite3.Connection, projections: Mapping[str, Projection], touched: set[str]) -> None:
    """Write the messages of these traces, and the rows of the sessions whose pieces have changed (`touched`)."""
    sessions = touched | {piece.session_id for each in projections.values() for piece in each.pieces}
    sessions |= {message.session_id for each in projections.values() for message in each.messages}
    known = recorded(connection, sessions)
    touched = touched | (sessions - load(connection, ChatSession, sessions).keys())  # its recorder's rows may have gone
    for session_id in touched - known:
        _write_session(connection, session_id)
    changed = _Messages(connection, projections, known).write()
    for session_id in (touched | changed) - known:
        if connection.execute("SELECT 1 FROM projected_traces WHERE session_id = ?", (session_id,)).fetchone():
            facts.refresh_chat(connection, session_id)
        else:
            _remove_session(connection, session_id)
    for session_id in touched & known:
        facts.refresh(connection, session_id)


class _Messages:
    """The messages of some traces: what is stored of them, and what they are now."""

    def __init__(
        self, connection: sqlite3.Connection, projections: Mapping[str, Projection], recorded: set[str]
    ) -> None:
        self._connection = connection
        self._wanted = {
            (message.id, trace_id): message
            for trace_id, projection in projections.items()
            for message in projection.messages
            if message.session_id not in recorded
        }
        self._parts: dict[tuple[str, str], list[ChatPart]] = {}
        for trace_id, projection in projections.items():
            for part in projection.parts:
                self._parts.setdefault((part.message_id, trace_id), []).append(part)
        self._tellers = self._load_tellers(list(projections))
        self._traces = projections.keys()

    def write(self) -> set[str]:
        """Write what differs; return the sessions that it is of."""
        ids = sorted({message_id for message_id, _ in self._wanted.keys() | self._tellers})
        if not ids:
            return set()
        before = self._writers(ids)
        stored = load(self._connection, ChatMessage, ids)
        strangers = {message_id for message_id in stored if message_id not in before}  # a recorder's, with such an id
        self._write_tellers(strangers)
        writers = self._writers(ids)
        told = {key[0]: self._wanted[key] for key in self._wanted if writers.get(key[0]) == key[1]}
        untold = before.keys() - writers.keys()
        gone = [stored[message_id] for message_id in ids if message_id in stored and message_id in untold]
        changed = [message for key, message in told.items() if message != stored.get(key)]
        self._remove(gone)
        upsert(self._connection, ChatMessage, changed)
        sessions = {message.session_id for message in (*gone, *changed)}
        sessions |= {stored[message.id].session_id for message in changed if message.id in stored}
        sessions |= self._write_parts({key: self._parts.get((key, writers[key]), []) for key in told})
        handed_on = {writer for key, writer in writers.items() if before.get(key, writer) != writer}
        backlog.mark(self._connection, handed_on - self._traces)
        return sessions

    def _write_parts(self, told: Mapping[str, Sequence[ChatPart]]) -> set[str]:
        """Let these messages have these parts; return the sessions of what changed."""
        stored = load(self._connection, ChatPart, told, "message_id")
        wanted = {part.id: part for parts in told.values() for part in parts}
        gone = [part for part_id, part in stored.items() if part_id not in wanted]
        changed = [part for part_id, part in wanted.items() if part != stored.get(part_id)]
        elsewhere = load(self._connection, ChatPart, [part.id for part in changed if part.id not in stored])
        changed = [part for part in changed if part.id not in elsewhere]
        search.take_out(self._connection, [part.id for part in (*gone, *changed) if part.id in stored])
        for chunk in chunks([part.id for part in gone]):
            self._connection.execute(f"DELETE FROM chat_parts WHERE id IN ({marks(chunk)})", chunk)
        upsert(self._connection, ChatPart, changed)
        search.put_in(self._connection, [(part.id, part.type) for part in changed])
        return {part.session_id for part in (*gone, *changed)}

    def _remove(self, messages: Sequence[ChatMessage]) -> None:
        ids = [message.id for message in messages]
        search.take_out(self._connection, list(load(self._connection, ChatPart, ids, "message_id")))
        for chunk in chunks(ids):
            self._connection.execute(f"DELETE FROM chat_messages WHERE id IN ({marks(chunk)})", chunk)

    def _load_tellers(self, traces: Sequence[str]) -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        for chunk in chunks(traces):
            query = f"SELECT message_id, trace_id FROM projected_messages WHERE trace_id IN ({marks(chunk)})"
            found.update(self._connection.execute(query, chunk))
        return found

    def _write_tellers(self, strangers: set[str]) -> None:
        self._wanted = {key: message for key, message in self._wanted.items() if key[0] not in strangers}
        self._connection.executemany(
            "DELETE FROM projected_messages WHERE message_id = ? AND trace_id = ?", self._tellers - self._wanted.keys()
        )
        insert_rows(
            self._connection,
            "INSERT INTO projected_messages (message_id, trace_id)",
            [key for key in self._wanted if key not in self._tellers],
        )

    def _writers(self, ids: Sequence[str]) -> dict[str, str]:
        """Of the traces that tell a message the one that writes it: the least."""
        found: dict[str, str] = {}
        for chunk in chunks(ids):
            found.update(self._connection.execute(_WRITERS.format(ids=marks(chunk)), chunk).fetchall())
        return found


def _write_session(connection: sqlite3.Connection, session_id: str) -> None:
    """The row of a session that only its traces tell: what they come to together."""
    names = Piece.__struct_fields__
    rows = connection.execute(_PIECES, (session_id,)).fetchall()
    if not rows:
        return
    pieces = [Piece(**dict(zip(names, row, strict=True))) for row in rows]
    told = _session_row(pieces)
    stored = connection.execute(f"SELECT {_ROW} FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()
    if stored != told:
        connection.execute(_PUT_SESSION, (session_id, *told))
        connection.execute("INSERT OR IGNORE INTO projected_sessions (session_id) VALUES (?)", (session_id,))


def _session_row(pieces: Sequence[Piece]) -> tuple[Any, ...]:
    """The columns of _ROW, from a session's pieces in the order in which they began."""
    model = next((piece for piece in reversed(pieces) if piece.model), None)
    found_by = {piece.session_by for piece in pieces}
    ours = {
        "origin": ORIGIN,
        "session_by": next((by for by in _SESSION_BY if by in found_by), min(found_by)),
        "kind": max(piece.kind for piece in pieces),
    }
    metadata = reduce(merged_objects, [piece.metadata_json for piece in pieces if piece.metadata_json != "{}"], "{}")
    return (
        next((piece.agent for piece in pieces if piece.agent), ""),
        _json({"provider_id": model.provider or "", "model_id": model.model} if model else {}),
        merged_objects(metadata, _json(ours)),
        pieces[0].first_at,
        max(piece.last_at for piece in pieces),
    )


def _remove_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove all chat rows of a projected session."""
    parts = connection.execute("SELECT id FROM chat_parts WHERE session_id = ?", (session_id,)).fetchall()
    search.take_out(connection, [part_id for (part_id,) in parts])
    connection.execute(
        "DELETE FROM projected_messages WHERE message_id IN (SELECT id FROM chat_messages WHERE session_id = ?)",
        (session_id,),
    )
    connection.execute("DELETE FROM chat_sessions WHERE id = ?", (session_id,))
    connection.execute("DELETE FROM projected_sessions WHERE session_id = ?", (session_id,))
    facts.forget_chat(connection, session_id)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()

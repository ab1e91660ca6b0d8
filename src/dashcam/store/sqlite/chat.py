"""Layer 1: chat rows. A later row stands in the place of an earlier one, and a delta goes on from it.
A session's later row adds to the earlier one, and a tool call has one row, whoever answered it.

Works inside the transaction that the caller holds. A batch is worked through in memory and each row that has changed
is then written once, however many deltas it grew by. A row that contradicts what is there is an IntegrityError, like
every other that the tables refuse. What was projected of a session gives way to them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from dashcam.contracts.chat import ChatMessage, ChatPart, ChatRow, ChatSession, PartDelta
from dashcam.store.sqlite import facts, search
from dashcam.store.sqlite.chat_merge import can_absorb, in_letters_of, is_stub, joined, merged_session
from dashcam.store.sqlite.projected import give_way
from dashcam.store.sqlite.rows import Row, load, upsert
from dashcam.store.sqlite.statements import chunks, marks

LOST = "\ufffd"  # stands where a delta is missing before this one

# CROSS JOIN: from each call to its parts, and not through all parts.
_CALL_PARTS = (
    "SELECT p.id FROM (VALUES {pairs}) AS call "
    "CROSS JOIN chat_parts AS p ON p.session_id = call.column1 AND p.tool_call_id = call.column2"
)
_NO_ROLLUPS = dict.fromkeys(facts.ROLLUP_COLUMNS[:-1], 0) | {"cost_usd": None}


class ChatWriter:
    """Keeps chat rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def put(self, rows: Sequence[ChatRow]) -> None:
        """Take the rows in their order; those that are there already add nothing."""
        if rows:
            told = {row.id if isinstance(row, ChatSession) else row.session_id for row in rows}
            give_way(self._connection, told)
            desk = _Desk(self._connection, rows)
            for row in rows:
                desk.take(row)
            desk.write()


class _Draft:
    """A part in work: its row, and the pieces of the text that deltas add to it."""

    def __init__(self, row: ChatPart) -> None:
        self.begun = row
        self._row = row
        self._path = ""
        self._data: dict[str, Any] = {}
        self._pieces: list[str] = []
        self._length = 0

    def grow(self, delta: PartDelta) -> None:
        """Go on from character `at`; what is older than the part is in it already."""
        if delta.updated_at < self._row.updated_at:
            return
        if delta.path != self._path:
            self._open(delta.path)
        if delta.at < self._length:
            self._pieces = ["".join(self._pieces)[: delta.at]]
        elif delta.at > self._length:
            self._pieces.append(LOST)
        self._pieces.append(delta.text)
        self._length = min(delta.at, self._length) + (delta.at > self._length) + len(delta.text)
        self._row = replace(self._row, updated_at=delta.updated_at)

    def row(self) -> ChatPart:
        """The part as it stands, whole."""
        if self._path:
            self._data[self._path] = "".join(self._pieces)
            self._row = replace(self._row, data_json=msgspec.json.encode(self._data).decode())
            self._path = ""
        return self._row

    def _open(self, path: str) -> None:
        try:
            data = msgspec.json.decode(self.row().data_json)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise sqlite3.IntegrityError(f"part {self._row.id} is no JSON object that a text could grow in")
        text = data.get(path)
        self._path, self._data = path, data
        self._pieces = [text] if isinstance(text, str) else []
        self._length = sum(map(len, self._pieces))


class _Desk:
    """One batch: what was stored of the rows that it names, and what they are now."""

    def __init__(self, connection: sqlite3.Connection, rows: Sequence[ChatRow]) -> None:
        self._connection = connection
        part_ids = {row.part_id for row in rows if isinstance(row, PartDelta)}
        part_ids |= {row.id for row in rows if isinstance(row, ChatPart)}
        self._stored_parts = load(connection, ChatPart, part_ids)
        self._calls = self._calls_to_join(rows)
        self._stored_parts |= load(connection, ChatPart, self._load_call_ids(self._calls) - part_ids)
        message_ids = {row.id for row in rows if isinstance(row, ChatMessage)}
        message_ids |= {row.message_id for row in rows if isinstance(row, ChatPart)}
        message_ids |= {part.message_id for part in self._stored_parts.values()}
        self._stored_messages = load(connection, ChatMessage, message_ids)
        session_ids = {row.id if isinstance(row, ChatSession) else row.session_id for row in rows}
        self._stored_sessions = load(connection, ChatSession, session_ids)
        self._told_at = self._load_told_at(session_ids)
        self._stored_told_at = dict(self._told_at)
        self._sessions, self._messages = dict(self._stored_sessions), dict(self._stored_messages)
        self._drafts = {part_id: _Draft(part) for part_id, part in self._stored_parts.items()}
        self._active: dict[str, int] = {}  # the newest updated_at of a session's rows

    def take(self, row: ChatRow) -> None:
        if isinstance(row, ChatSession):
            self._take_session(row)
        elif isinstance(row, ChatMessage):
            self._take_message(row)
        elif isinstance(row, ChatPart):
            self._take_part(row)
        else:
            self._take_delta(row)

    def write(self) -> None:
        """Write what has changed: parents before children, then what is counted from them."""
        gone = self._join_calls()
        parts = _changed(self._stored_parts, {key: draft.row() for key, draft in self._drafts.items()})
        messages = _changed(self._stored_messages, self._messages)
        for session_id, active_at in self._active.items():
            session = self._sessions[session_id]
            self._sessions[session_id] = replace(session, updated_at=max(active_at, session.updated_at))
        for session_id, stored in self._stored_sessions.items():
            self._sessions[session_id] = in_letters_of(stored, self._sessions[session_id])
        sessions = _changed(self._stored_sessions, self._sessions)
        upsert(self._connection, ChatSession, sessions)
        upsert(self._connection, ChatMessage, messages)
        search.take_out(self._connection, [part.id for part in (*parts, *gone) if part.id in self._stored_parts])
        self._connection.executemany("DELETE FROM chat_parts WHERE id = ?", [(part.id,) for part in gone])
        upsert(self._connection, ChatPart, parts)
        search.put_in(self._connection, [(part.id, part.type) for part in parts])
        counted = {message.session_id for message in messages}
        counted |= {part.session_id for part in parts if self._is_counted(part)} | {part.session_id for part in gone}
        counted |= {session.id for session in sessions if self._is_told(session)}
        for session_id in counted:
            facts.refresh_chat(self._connection, session_id)
        for session_id in {session.id for session in sessions} - counted:
            facts.refresh(self._connection, session_id)
        told = [(at, key) for key, at in self._told_at.items() if at != self._stored_told_at.get(key)]
        self._connection.executemany("UPDATE session_facts SET told_at = ? WHERE session_id = ?", told)

    def _take_session(self, row: ChatSession) -> None:
        row = replace(row, **_NO_ROLLUPS)
        known = self._sessions.get(row.id)
        if known is None:
            self._sessions[row.id], self._told_at[row.id] = row, row.updated_at
            return
        told_at = self._told_at.get(row.id, 0)
        self._told_at[row.id] = max(told_at, row.updated_at)
        self._sessions[row.id] = replace(
            merged_session(known, row, is_newer=row.updated_at >= told_at),
            agent=known.agent or row.agent,
            created_at=min(known.created_at, row.created_at),
            updated_at=max(known.updated_at, row.updated_at),
            **{name: getattr(known, name) for name in facts.ROLLUP_COLUMNS},
        )

    def _take_message(self, row: ChatMessage) -> None:
        known = self._messages.get(row.id)
        _check_owner("message", known, row.session_id)
        self._note(row.session_id, row.created_at, row.updated_at)
        if known is None or row.updated_at >= known.updated_at:
            self._messages[row.id] = row

    def _take_part(self, row: ChatPart) -> None:
        draft = self._drafts.get(row.id)
        known = None if draft is None else draft.row()
        _check_owner("part", known, row.session_id)
        message = self._messages.get(row.message_id)
        _check_owner("message", message, row.session_id)
        self._note(row.session_id, row.created_at, row.updated_at)
        if message is None:  # its line was lost, too
            self._messages[row.message_id] = ChatMessage(
                id=row.message_id, session_id=row.session_id, role="assistant", created_at=row.created_at, updated_at=0
            )
        if known is None or row.updated_at >= known.updated_at:
            self._drafts[row.id] = _Draft(row)

    def _take_delta(self, row: PartDelta) -> None:
        draft = self._drafts.get(row.part_id)
        if draft is None:
            raise sqlite3.IntegrityError(f"part {row.part_id}, which this goes on from, is not there")
        _check_owner("part", draft.begun, row.session_id)
        draft.grow(row)
        self._note(row.session_id, draft.begun.created_at, row.updated_at)

    def _calls_to_join(self, rows: Sequence[ChatRow]) -> set[tuple[str, str]]:
        """The tool calls, as (session, call), of which there may be more than one row: answers, and new calls."""
        told = [row for row in rows if isinstance(row, ChatPart) and row.tool_call_id]
        calls = [part for part in self._stored_parts.values() if part.tool_call_id]
        whole = {part.id for part in calls if can_absorb(part) and not is_stub(part)}  # with its answers, if any
        return {(row.session_id, str(row.tool_call_id)) for row in told if row.id not in whole}

    def _join_calls(self) -> list[ChatPart]:
        """Let each tool call have one row; return the stored ones that are no more."""
        groups: dict[tuple[str, str], list[ChatPart]] = {call: [] for call in self._calls}
        for draft in self._drafts.values() if groups else ():
            part = draft.row()
            if (group := groups.get((part.session_id, part.tool_call_id or ""))) is not None:
                group.append(part)
        gone = []
        for kept, ids in map(joined, groups.values()):
            if kept is not None:
                self._drafts[kept.id] = _Draft(kept)
            for part_id in ids:
                del self._drafts[part_id]
                gone += [self._stored_parts[part_id]] if part_id in self._stored_parts else []
        return gone

    def _note(self, session_id: str, created_at: int, updated_at: int) -> None:
        """A session was active. Where its own line was lost, a row stands in for what is told later."""
        if session_id not in self._sessions:
            self._sessions[session_id] = ChatSession(id=session_id, agent="", created_at=created_at, updated_at=0)
        self._active[session_id] = max(self._active.get(session_id, 0), updated_at)

    def _is_counted(self, part: ChatPart) -> bool:
        """Whether a changed part may change what is counted: a user's words are a title, a call may have failed."""
        before = self._stored_parts.get(part.id)
        message = self._messages.get(part.message_id)
        return before is None or before.tool_state != part.tool_state or message is None or message.role == "user"

    def _is_told(self, session: ChatSession) -> bool:
        """Whether more of a session's row has changed than the time of its last activity."""
        before = self._stored_sessions.get(session.id)
        return before is None or replace(before, updated_at=session.updated_at) != session

    def _load_call_ids(self, calls: set[tuple[str, str]]) -> set[str]:
        """The ids of all stored parts of these tool calls."""
        found: set[str] = set()
        for chunk in chunks(sorted(calls)):
            query = _CALL_PARTS.format(pairs=", ".join(["(?, ?)"] * len(chunk)))
            rows = self._connection.execute(query, [value for call in chunk for value in call])
            found |= {part_id for (part_id,) in rows}
        return found

    def _load_told_at(self, ids: set[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for chunk in chunks(sorted(ids)):
            query = f"SELECT session_id, told_at FROM session_facts WHERE session_id IN ({marks(chunk)})"
            found |= dict(self._connection.execute(query, chunk).fetchall())
        return found


def _changed(stored: dict[str, Row], now: dict[str, Row]) -> list[Row]:
    return [row for key, row in now.items() if row != stored.get(key)]


def _check_owner(what: str, known: ChatMessage | ChatPart | None, session_id: str) -> None:
    if known is not None and known.session_id != session_id:
        raise sqlite3.IntegrityError(f"{what} {known.id} belongs to session {known.session_id}, not to {session_id}")

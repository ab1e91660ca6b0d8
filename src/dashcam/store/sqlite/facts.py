"""What a list of sessions shows, one row a session, kept in the transaction that changes what it is counted from.

`session_traces` counts the events of a session by trace; `session_facts` holds the rest. Both can be counted again
from events, projected traces and chat rows, and verify does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any

import msgspec
from msgspec.structs import astuple

from dashcam.contracts.chat import ROLLUPS, USAGE, object_of
from dashcam.contracts.event import Event
from dashcam.store.sqlite.statements import insert_rows

TITLE = 80  # characters of a title
_HUGE = 2**53  # no count of tokens, and no sum of real ones

_COUNT_TRACES = "INSERT INTO session_traces (session_id, trace_id, kind, events, first_ts, last_ts)"
_ADD = (
    "ON CONFLICT DO UPDATE SET events = events + excluded.events, "
    "first_ts = min(first_ts, excluded.first_ts), last_ts = max(last_ts, excluded.last_ts)"
)
_LEFT = "session_id = ?1 AND trace_id = ?2 AND kind = ?3"
_SUBTRACT = (
    f"UPDATE session_traces SET events = events - ?4, first_ts = coalesce((SELECT min(ts) FROM events WHERE {_LEFT}), 0), "
    f"last_ts = coalesce((SELECT max(ts) FROM events WHERE {_LEFT}), 0) WHERE {_LEFT}"
)
_NO_EVENTS = "DELETE FROM session_traces WHERE session_id = ? AND trace_id = ? AND kind = ? AND events <= 0"
COUNTED = "SELECT session_id, trace_id, kind, count(*), min(ts), max(ts) FROM events GROUP BY 1, 2, 3"
_TRACE_FACTS = (
    "SELECT max(kind), count(DISTINCT trace_id), coalesce(sum(events), 0), min(first), max(last) FROM "
    "(SELECT kind, trace_id, events, first_ts / 1000 AS first, last_ts / 1000 AS last FROM session_traces "
    "WHERE session_id = :id "
    "UNION ALL SELECT kind, trace_id, 0, first_at, last_at FROM projected_traces WHERE session_id = :id)"
)
# Every session that anything is known of.
SESSIONS = (
    "SELECT id FROM chat_sessions UNION SELECT session_id FROM session_traces "
    "UNION SELECT session_id FROM projected_traces UNION SELECT session_id FROM session_facts"
)
_CHAT_ROW = (
    "SELECT model_json, metadata_json, created_at, updated_at, "
    "EXISTS (SELECT 1 FROM projected_sessions AS p WHERE p.session_id = id) FROM chat_sessions WHERE id = ?"
)
_MESSAGES = "SELECT role, metadata_json FROM chat_messages WHERE session_id = ? ORDER BY created_at, id"
_FAILED_CALLS = "SELECT count(*) FROM chat_parts WHERE session_id = ? AND tool_state = 'output-error'"
_FIRST_WORDS = (
    "SELECT substr(p.data_json ->> '$.text', 1, 1000) "
    "FROM chat_messages AS m CROSS JOIN chat_parts AS p ON p.message_id = m.id "
    "WHERE m.session_id = ? AND m.role = 'user' AND p.type = 'text' "
    "AND CASE WHEN json_valid(p.data_json) THEN trim(p.data_json ->> '$.text') <> '' END "
    'ORDER BY m.created_at, m.id, p."index" LIMIT 1'
)


class ChatFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from the messages and parts of one session."""

    provider: str | None = None
    model: str | None = None
    title: str = ""
    turns: int = 0
    messages: int = 0
    errors: int = 0
    state: str = "ended"


class Rollup(msgspec.Struct, frozen=True):
    """The sums over a session's assistant messages, in the order of USAGE, and their cost."""

    tokens: tuple[int, ...]
    cost_usd: float | None

    @property
    def columns(self) -> tuple[float | None, ...]:
        """In the order of ROLLUP_COLUMNS."""
        return (*self.tokens, sum(self.tokens), self.cost_usd)


ROLLUP_COLUMNS = (*ROLLUPS, "total_tokens", "cost_usd")
_COMMON = ("kind", "first_at", "last_at", "traces", "events")
COLUMNS = (*_COMMON, *ChatFacts.__struct_fields__)


def _put(names: Sequence[str]) -> str:
    columns, told = ", ".join(names), ", ".join(f"excluded.{name}" for name in names)
    return (
        f"INSERT INTO session_facts (session_id, {columns}) VALUES (?{', ?' * len(names)}) "
        f"ON CONFLICT DO UPDATE SET ({columns}) = ({told}) WHERE ({columns}) IS NOT ({told})"
    )


_PUT = (_put(_COMMON), _put(COLUMNS))


def count_events(connection: sqlite3.Connection, added: Iterable[Event]) -> None:
    """Count events that were just added."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    for event in added:
        ts = event.ts
        told = counts.setdefault((event.session_id, event.trace_id, event.kind), [0, ts, ts])
        told[0] += 1
        if ts < told[1]:
            told[1] = ts
        elif ts > told[2]:
            told[2] = ts
    insert_rows(connection, _COUNT_TRACES, [(*key, *told) for key, told in counts.items()], _ADD)
    for session_id in {key[0] for key in counts}:
        refresh(connection, session_id)


def uncount_events(connection: sqlite3.Connection, counts: Sequence[tuple[str, str, str, int]]) -> None:
    """Take out events that were just removed, told as (session, trace, kind, how many)."""
    connection.executemany(_SUBTRACT, counts)
    connection.executemany(_NO_EVENTS, [key for *key, _ in counts])
    for session_id in {row[0] for row in counts}:
        refresh(connection, session_id)


def refresh(connection: sqlite3.Connection, session_id: str, chat: ChatFacts | None = None) -> None:
    """Write what is known of a session again; what its chat rows say only where `chat` is told."""
    told = facts_of(connection, session_id, chat)
    if told is None:
        connection.execute("DELETE FROM session_facts WHERE session_id = ?", (session_id,))
    else:
        connection.execute(_PUT[chat is not None], (session_id, *told))


def facts_of(connection: sqlite3.Connection, session_id: str, chat: ChatFacts | None) -> tuple[Any, ...] | None:
    """What stands in COLUMNS, or in the first of them where `chat` isn't told; None where nothing is known."""
    found = common_facts(connection, session_id)
    return found and (*found, *(astuple(chat) if chat else ()))


def common_facts(connection: sqlite3.Connection, session_id: str) -> tuple[str, int, int, int, int] | None:
    """kind, first_at, last_at, traces, events, out of its traces and the session's own row; None where there is neither.

    The row of a recorded session says of which kind it is; that of a projected one follows from its traces.
    """
    kind, traces, events, first, last = connection.execute(_TRACE_FACTS, {"id": session_id}).fetchone()
    row = connection.execute(_CHAT_ROW, (session_id,)).fetchone()
    if row is not None:
        _, metadata, created_at, updated_at, is_projected = row
        kind = kind if is_projected and kind else _kind_of(metadata)
        first = created_at if first is None else min(first, created_at)
        last = max(created_at, updated_at, created_at if last is None else last)
    return None if kind is None else (kind, first, last, traces, events)


def chat_facts(connection: sqlite3.Connection, session_id: str) -> tuple[ChatFacts, Rollup] | None:
    """All that follows from the chat rows of a session; None where it has none."""
    row = connection.execute(_CHAT_ROW, (session_id,)).fetchone()
    if row is None:
        return None
    turns = messages = errors = 0
    state = "ended"
    tokens, costs = [0] * len(USAGE), []
    for role, text in connection.execute(_MESSAGES, (session_id,)):
        metadata = object_of(text)
        messages += 1
        turns += role == "user"
        if role == "assistant":
            errors += _has_failed(metadata)
            costs += _cost_of(metadata)
            for place, count in enumerate(_counts_of(metadata)):
                tokens[place] += count
        if metadata.get("hidden_at") is None:
            state = _state_after(role, metadata, state)
    errors += connection.execute(_FAILED_CALLS, (session_id,)).fetchone()[0]
    first_words = connection.execute(_FIRST_WORDS, (session_id,)).fetchone()
    model = object_of(row[0])
    facts = ChatFacts(
        provider=_text(model.get("provider_id")),
        model=_text(model.get("model_id")),
        title=" ".join(first_words[0].split())[:TITLE] if first_words else "",
        turns=turns,
        messages=messages,
        errors=errors,
        state=state,
    )
    # fsum: the same whatever the order, so that a sum can be checked.
    return facts, Rollup(tuple(min(count, _HUGE) for count in tokens), fsum(costs) if costs else None)


def recount(connection: sqlite3.Connection) -> None:
    """Count everything again, from events, projected traces and chat rows."""
    connection.execute("DELETE FROM session_traces")
    connection.execute(f"{_COUNT_TRACES} {COUNTED}")
    for (session_id,) in connection.execute(SESSIONS).fetchall():
        refresh_chat(connection, session_id)


def refresh_chat(connection: sqlite3.Connection, session_id: str) -> None:
    """Write the sums and the facts of one session again, where they have changed."""
    found = chat_facts(connection, session_id)
    if found is None:
        refresh(connection, session_id, ChatFacts())
        return
    facts, rollup = found
    names = ", ".join(ROLLUP_COLUMNS)
    marks = ", ".join("?" * len(ROLLUP_COLUMNS))
    connection.execute(
        f"UPDATE chat_sessions SET ({names}) = ({marks}) WHERE id = ? AND ({names}) IS NOT ({marks})",
        (*rollup.columns, session_id, *rollup.columns),
    )
    refresh(connection, session_id, facts)


def forget_chat(connection: sqlite3.Connection, session_id: str) -> None:
    """After the chat rows of a session are gone: what is left is what its events say."""
    connection.execute("UPDATE session_facts SET told_at = 0 WHERE session_id = ?", (session_id,))
    refresh(connection, session_id, ChatFacts())


def _state_after(role: str, metadata: dict[str, Any], before: str) -> str:
    """How a session's last turn stands after this message."""
    if role == "assistant":
        if _has_failed(metadata):
            return "failed"
        return "open" if metadata.get("stop_reason") is None else "ended"
    return "asked" if role == "user" and metadata.get("queued_at") is None else before


def _has_failed(metadata: dict[str, Any]) -> bool:
    return metadata.get("stop_reason") == "error" or metadata.get("error") is not None


def _counts_of(metadata: dict[str, Any]) -> Iterable[int]:
    """The five counts of a message; 0 for what isn't one."""
    usage = metadata.get("usage")
    told = [usage.get(name) for name in USAGE] if isinstance(usage, dict) else []
    return [count if type(count) is int and 0 <= count < _HUGE else 0 for count in told]


def _cost_of(metadata: dict[str, Any]) -> list[float]:
    """What a message cost: a number that can be added to others, or nothing."""
    cost = metadata.get("cost_usd")
    plain = isinstance(cost, int | float) and not isinstance(cost, bool)
    return [float(cost)] if plain and abs(cost) < 1e300 else []  # type: ignore[arg-type]


def _kind_of(metadata_json: str) -> str:
    """The kind that a session row tells, as the tables take it."""
    kind = object_of(metadata_json).get("kind")
    source = kind.removeprefix("system:") if isinstance(kind, str) and kind.startswith("system:") else ""
    return f"system:{source}" if source and not any(sign.isspace() or sign == "\0" for sign in source) else "user"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

"""Which traces are to be projected again because another one changed.

A trace tells the turns of its history that no earlier trace of its session tells, and may get its session from the
trace that it goes on from. Marks are made only where something changed, so that this comes to an end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from dashcam.contracts.call import ModelCall
from dashcam.store.base import Piece
from dashcam.store.sqlite import backlog
from dashcam.store.sqlite.statements import chunks, marks

_SESSION, _FIRST, _LAST, _ENDS = (
    Piece.__struct_fields__.index(name) for name in ("session_id", "first_at", "last_at", "ends")
)
# What a later trace tells only as history, and an earlier one now tells itself.
_TELL_IT_TOO = (
    "SELECT t.trace_id FROM projected_turns AS t JOIN projected_traces AS p "
    "ON p.trace_id = t.trace_id AND p.session_id = t.session_id "
    "WHERE t.session_id = ? AND t.digest IN ({digests}) AND t.history > 0 AND (p.first_at, p.trace_id) > (?, ?)"
)
_BETWEEN = (
    "SELECT trace_id FROM projected_traces WHERE session_id = ? "
    "AND (first_at, trace_id) > (?, ?) AND (first_at, trace_id) < (?, ?)"
)
_GO_ON = "SELECT trace_id FROM projected_traces WHERE starts IN ({digests})"
_WITHOUT_WORDS = (
    "SELECT trace_id FROM model_calls WHERE response_id IN ({ids}) AND context_digest IS NULL AND output_digest IS NULL"
)
_RESPONSE, _CONTEXT, _OUTPUT = (
    ModelCall.__struct_fields__.index(name) for name in ("response_id", "context_digest", "output_digest")
)
_FOREVER = (2**63 - 1, "")

_Calls = Mapping[str, Sequence[tuple[Any, ...]]]  # rows of model_calls, by trace


class Standing(msgspec.Struct, frozen=True):
    """How a trace stands: its place in each session, the turns that it tells there, where its conversation ends."""

    first_at: dict[str, int]
    turns: dict[str, dict[bytes, int]]
    ends: dict[bytes, set[tuple[str, int, int]]]  # with session, beginning and end of the trace there


def standing(pieces: Sequence[tuple[Any, ...]], turns: Sequence[tuple[Any, ...]]) -> Standing:
    """From the rows of one trace."""
    told: dict[str, dict[bytes, int]] = {}
    for session_id, digest, times, *_ in turns:
        told.setdefault(session_id, {})[digest] = times
    ends: dict[bytes, set[tuple[str, int, int]]] = {}
    for row in pieces:
        if row[_ENDS] is not None:
            ends.setdefault(row[_ENDS], set()).add((row[_SESSION], row[_FIRST], row[_LAST]))
    return Standing({row[_SESSION]: row[_FIRST] for row in pieces}, told, ends)


def mark(connection: sqlite3.Connection, before: Mapping[str, Standing], after: Mapping[str, Standing]) -> None:
    """Mark every trace that builds on what has changed."""
    found: set[str] = set()
    for trace_id, now in after.items():
        was = before[trace_id]
        if was == now:
            continue
        changed = [
            digest for digest in was.ends.keys() | now.ends.keys() if was.ends.get(digest) != now.ends.get(digest)
        ]
        builders = _going_on(connection, changed)
        for session_id in was.first_at.keys() | now.first_at.keys():
            builders |= _later(connection, trace_id, session_id, was, now)
        found |= builders - {trace_id}
    backlog.mark(connection, found)


def _later(connection: sqlite3.Connection, trace_id: str, session_id: str, was: Standing, now: Standing) -> set[str]:
    """The traces of a session that tell more or less because of what this one tells there."""
    told_before, told = was.turns.get(session_id, {}), now.turns.get(session_id, {})
    old, new = was.first_at.get(session_id), now.first_at.get(session_id)
    places = [at for at in (old, new) if at is not None]
    if any(told.get(digest, 0) < times for digest, times in told_before.items()):
        return _between(connection, session_id, (min(places), trace_id), _FOREVER)
    found: set[str] = set()
    if old is not None and new is not None and old != new:
        found = _between(connection, session_id, (min(places), trace_id), (max(places), trace_id))
    more = [digest for digest, times in told.items() if told_before.get(digest, 0) < times]
    for chunk in chunks(more):
        query = _TELL_IT_TOO.format(digests=marks(chunk))
        found |= {each for (each,) in connection.execute(query, (session_id, *chunk, new, trace_id))}
    return found


def _between(connection: sqlite3.Connection, session_id: str, start: tuple[int, str], end: tuple[int, str]) -> set[str]:
    return {each for (each,) in connection.execute(_BETWEEN, (session_id, *start, *end))}


def _going_on(connection: sqlite3.Connection, ends: Sequence[bytes]) -> set[str]:
    """Traces that begin as one of these conversations ends."""
    found: set[str] = set()
    for chunk in chunks(ends):
        found |= {each for (each,) in connection.execute(_GO_ON.format(digests=marks(chunk)), chunk)}
    return found


def mark_repeats(connection: sqlite3.Connection, before: _Calls, after: _Calls) -> None:
    """Mark the traces that tell of an answer without its words, now that another has them."""
    new = {
        row[_RESPONSE]
        for trace_id, rows in after.items()
        for row in set(rows) - set(before[trace_id])
        if row[_RESPONSE] is not None and (row[_CONTEXT] or row[_OUTPUT])
    }
    found: set[str] = set()
    for chunk in chunks(sorted(new)):
        found |= {each for (each,) in connection.execute(_WITHOUT_WORDS.format(ids=marks(chunk)), chunk)}
    backlog.mark(connection, found)

"""Reading what is projected: pieces and turns of sessions, scores, and where prompts are used."""

from __future__ import annotations

import sqlite3

from dashcam.contracts.score import Score
from dashcam.store.base import Piece, Prompt
from dashcam.store.sqlite.projected import recorded

BEGINNING = 200  # characters of a prompt
_SCORES = f"SELECT {', '.join(Score.__struct_fields__)} FROM scores AS s"
# Told by several traces, the latest stands.
_LATEST = (
    "NOT EXISTS (SELECT 1 FROM scores AS o WHERE o.score_id = s.score_id "
    "AND (o.ts, o.told_by) > (s.ts, s.told_by))"
)  # fmt: skip
_PROMPTS = (
    f"SELECT digest, length(CAST(body AS BLOB)), created_at, substr(body, 1, {BEGINNING}) FROM system_prompts "
    "WHERE :after = '' OR (created_at, digest) < (SELECT created_at, digest FROM system_prompts WHERE digest = :after) "
    "ORDER BY created_at DESC, digest DESC LIMIT :limit"
)
_USES = "SELECT count(*), count(DISTINCT session_id), max(ts) / 1000 FROM model_calls WHERE system_prompt_digest = ?"
_TOLD_BEFORE = (
    "SELECT t.digest, sum(t.times) FROM projected_turns AS t JOIN projected_traces AS p "
    "ON p.trace_id = t.trace_id AND p.session_id = t.session_id "
    "WHERE t.session_id = ? AND (p.first_at, p.trace_id) < (?, ?) GROUP BY t.digest"
)
_ENDING = f"SELECT {', '.join(Piece.__struct_fields__)} FROM projected_traces WHERE ends = ?"


def scores(connection: sqlite3.Connection, session_id: str | None, trace_id: str | None) -> list[Score]:
    """The scores of a session, a trace, or all, by their time."""
    given = {"session_id": session_id, "trace_id": trace_id}
    where = [f"s.{name} = :{name}" for name, value in given.items() if value is not None]
    rows = connection.execute(f"{_SCORES} WHERE {' AND '.join([*where, _LATEST])} ORDER BY ts, score_id", given)
    return [Score(**dict(zip(Score.__struct_fields__, row, strict=True))) for row in rows]


def prompts(connection: sqlite3.Connection, limit: int, after: str) -> list[Prompt]:
    """System prompts, the newest first, with the calls and sessions that used each."""
    found = connection.execute(_PROMPTS, {"after": after, "limit": max(limit, 0)}).fetchall()
    told = []
    for digest, size, first_at, beginning in found:
        calls, sessions, last_at = connection.execute(_USES, (digest,)).fetchone()
        told.append(
            Prompt(
                digest=digest, size=size, first_at=first_at, last_at=last_at, calls=calls, sessions=sessions,
                beginning=beginning,
            )
        )  # fmt: skip
    return told


def spans_and_logs(connection: sqlite3.Connection) -> int:
    """How many there are of both."""
    return sum(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("spans", "logs"))


def session_by(connection: sqlite3.Connection) -> dict[str, int]:
    """How many traces found their session in which way."""
    return dict(
        connection.execute("SELECT session_by, count(*) FROM projected_traces GROUP BY 1 ORDER BY 1").fetchall()
    )


def told_before(connection: sqlite3.Connection, session_id: str, before: tuple[int, str]) -> dict[bytes, int]:
    """How often each turn is told by the traces of a session that come before (first_at, trace_id)."""
    return dict(connection.execute(_TOLD_BEFORE, (session_id, *before)).fetchall())


def traces_ending(connection: sqlite3.Connection, digest: bytes) -> list[Piece]:
    """The traces whose conversation ends so, as they began."""
    rows = connection.execute(f"{_ENDING} ORDER BY first_at, trace_id, session_id", (digest,))
    return [Piece(**dict(zip(Piece.__struct_fields__, row, strict=True))) for row in rows]


def is_recorded(connection: sqlite3.Connection, session_id: str) -> bool:
    """Whether a recorder or an import tells this session."""
    return bool(recorded(connection, [session_id]))

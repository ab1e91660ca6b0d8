"""Checking chat rows: the sums, what is counted beside them, what they name, and the index for search."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from dashcam.store.sqlite import facts
from dashcam.store.sqlite.search import SPEAKING

_REBUILD = "Mend it with: dashcam rebuild"
_STRAY_PARTS = (
    "SELECT p.id, p.session_id FROM chat_parts AS p LEFT JOIN chat_messages AS m ON m.id = p.message_id "
    "WHERE m.session_id IS NOT p.session_id ORDER BY p.id"
)
_WRONG_TRACES = (
    "SELECT DISTINCT session_id FROM "
    "(SELECT * FROM ({counted} EXCEPT {kept}) UNION ALL SELECT * FROM ({kept} EXCEPT {counted}))"
).format(
    counted=facts.COUNTED,
    kept="SELECT session_id, trace_id, kind, events, first_ts, last_ts FROM session_traces",
)
_NAMED = (
    "SELECT m.id, m.named FROM (SELECT id, "
    "CASE WHEN json_valid(metadata_json) THEN metadata_json ->> '$.{key}' END AS named FROM chat_messages) AS m WHERE m.named IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM {table} WHERE digest = lower(m.named)) ORDER BY m.id"
)
# How many words stand in how many parts, and one number that is the same for the same words in the same parts.
_PLACES = (
    "SELECT count(*), coalesce(sum((doc % 100003 + 1) * (length(term) * 31 + unicode(term) * 1009 "
    "+ coalesce(unicode(substr(term, 2)), 7) * 10007 + coalesce(unicode(substr(term, 3)), 5) * 613 "
    "+ unicode(substr(term, -1)) * 7919) % 1000003), 0) FROM temp.{}"
)


def verify_chat(connection: sqlite3.Connection) -> Iterator[str]:
    """Every finding in chat rows, and in what is counted and indexed from them and from events."""
    for part_id, session_id in connection.execute(_STRAY_PARTS).fetchall():
        yield f"Part {part_id} of session {session_id} is not part of a message of that session."
    for (session_id,) in connection.execute(_WRONG_TRACES).fetchall():
        yield f"Session {session_id}: its traces are not counted as the log holds them. {_REBUILD}"
    for (session_id,) in connection.execute(facts.SESSIONS).fetchall():
        yield from _verify_session(connection, session_id)
    for noun, key, table in (
        ("system prompt", "system_prompt_digest", "system_prompts"),
        ("tool catalog", "tool_catalog_digest", "tool_catalogs"),
    ):
        for message_id, digest in connection.execute(_NAMED.format(key=key, table=table)).fetchall():
            yield f"Message {message_id} names the {noun} {digest}, which is missing."
    yield from _verify_search(connection)


def _verify_session(connection: sqlite3.Connection, session_id: str) -> Iterator[str]:
    found = facts.chat_facts(connection, session_id)
    if found is not None:
        names = ", ".join(facts.ROLLUP_COLUMNS)
        stored = connection.execute(f"SELECT {names} FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()
        for name, told, counted in zip(facts.ROLLUP_COLUMNS, stored, found[1].columns, strict=True):
            if told != counted:
                yield f"Session {session_id}: {name} is {told}, its messages sum up to {counted}. {_REBUILD}"
    wanted = facts.facts_of(connection, session_id, found[0] if found else facts.ChatFacts())
    names = ", ".join(facts.COLUMNS)
    kept = connection.execute(f"SELECT {names} FROM session_facts WHERE session_id = ?", (session_id,)).fetchone()
    if kept != wanted:
        yield f"Session {session_id} is listed with other figures than its records have. {_REBUILD}"


def _verify_search(connection: sqlite3.Connection) -> Iterator[str]:
    """Index everything once more beside the store, and compare. FTS5's own check is a write, which a reader can't."""
    (query_only,) = connection.execute("PRAGMA query_only").fetchone()
    connection.execute("PRAGMA query_only = OFF")  # for temporary tables; a reader's file is opened read-only besides
    try:
        yield from _compare_search(connection)
    finally:
        for name in ("kept_places", "fresh_places", "fresh_search"):
            connection.execute(f"DROP TABLE IF EXISTS temp.{name}")
        connection.execute(f"PRAGMA query_only = {query_only}")


def _compare_search(connection: sqlite3.Connection) -> Iterator[str]:
    connection.execute(
        "CREATE VIRTUAL TABLE temp.fresh_search USING fts5 (words, content='', columnsize=0, detail=none)"
    )
    connection.execute("INSERT INTO temp.fresh_search (rowid, words) SELECT id, words FROM main.chat_words")
    connection.execute("CREATE VIRTUAL TABLE temp.kept_places USING fts5vocab (main, chat_search, instance)")
    connection.execute("CREATE VIRTUAL TABLE temp.fresh_places USING fts5vocab (temp, fresh_search, instance)")
    kept, fresh = (connection.execute(_PLACES.format(name)).fetchone() for name in ("kept_places", "fresh_places"))
    if kept != fresh:
        yield f"The index for search holds {kept[0]} words where the parts hold {fresh[0]}, or other ones. {_REBUILD}"
    (unindexed,) = connection.execute(
        f"SELECT count(*) FROM chat_parts WHERE {SPEAKING} AND id NOT IN (SELECT part_id FROM chat_texts)"
    ).fetchone()
    if unindexed:
        yield f"{unindexed} parts are missing from the index for search. {_REBUILD}"

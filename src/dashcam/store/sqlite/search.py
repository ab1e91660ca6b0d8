"""Looking for words in the parts of chat sessions.

`chat_search` is an index without text: it reads the words of a part through the view `chat_words`. What leaves the
index must therefore leave while the part still reads as it did when it came in.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from dashcam.store.base import SearchHit
from dashcam.store.sqlite.statements import chunks, insert_rows, marks

FOUND, END = "\x02", "\x03"  # around each word of a snippet that was looked for
SNIPPET_WORDS = 16
SNIPPET_CHARACTERS = 400  # a word may be a megabyte long
MOST_WORDS = 32  # of a query; who pastes a page looks for its beginning
_WORDS = re.compile(r"[^\W_]+")
MERGED = 1000  # pages of the index a transaction
_SILENT = "step-start"  # the type that says nothing in words
SPEAKING = f"type <> '{_SILENT}'"

# The parts that hold the words; the places are filled in by those who ask.
MATCHES = (
    "chat_search CROSS JOIN chat_texts AS t ON t.id = chat_search.rowid CROSS JOIN chat_parts AS p ON p.id = t.part_id "
    "WHERE chat_search MATCH :words"
)
_HITS = (
    f"SELECT t.id, p.session_id, p.message_id, p.id, p.type, p.created_at FROM {MATCHES} "
    "AND (:session_id IS NULL OR p.session_id = :session_id) ORDER BY p.created_at DESC, p.id DESC LIMIT :limit"
)
_SNIPPET = (
    f"SELECT snippet(chat_search, 0, char({ord(FOUND)}), char({ord(END)}), '…', {SNIPPET_WORDS}) "
    "FROM chat_search WHERE chat_search MATCH ? AND rowid = ?"
)
_OUT = (
    "INSERT INTO chat_search (chat_search, rowid, words) SELECT 'delete', id, words FROM chat_words WHERE part_id IN "
)
_IN = "INSERT INTO chat_search (rowid, words) SELECT id, words FROM chat_words WHERE part_id IN "


def search(connection: sqlite3.Connection, words: str, session_id: str | None, limit: int) -> list[SearchHit]:
    """Parts that hold all of the words, the last one perhaps begun only; the newest first."""
    query = query_of(words)
    if not query:
        return []
    hits = connection.execute(_HITS, {"words": query, "session_id": session_id, "limit": max(limit, 0)}).fetchall()
    # The snippet of each that is shown, not of each that was found.
    return [
        SearchHit(
            session_id=session, message_id=message, part_id=part, type=kind, created_at=created_at,
            snippet=_snippet(connection, query, number),
        )
        for number, session, message, part, kind, created_at in hits
    ]  # fmt: skip


def query_of(words: str) -> str:
    """What FTS5 is asked: every word quoted, so that nothing a person types is syntax; empty where there is no word.

    Cut where the index cuts: it knows words and no phrases, so `foo-bar` is looked for as both.
    """
    found = _WORDS.findall(words.encode(errors="replace").decode())[:MOST_WORDS]
    return " ".join(f'"{word}"' for word in found) + "*" if found else ""


def take_out(connection: sqlite3.Connection, part_ids: Sequence[str]) -> None:
    """Forget the words of these parts, which must still be as they came in."""
    for chunk in chunks(part_ids):
        connection.execute(f"{_OUT} ({marks(chunk)})", chunk)


def put_in(connection: sqlite3.Connection, parts: Iterable[tuple[str, str]]) -> None:
    """Take in the words of these (id, type), none of which is in."""
    parts = list(parts)
    ids = [part_id for part_id, kind in parts if kind != _SILENT]
    for chunk in chunks([part_id for part_id, kind in parts if kind == _SILENT]):  # one that had words, and lost them
        connection.execute(f"DELETE FROM chat_texts WHERE part_id IN ({marks(chunk)})", chunk)
    insert_rows(connection, "INSERT OR IGNORE INTO chat_texts (part_id)", [(part_id,) for part_id in ids])
    for chunk in chunks(ids):
        connection.execute(f"{_IN} ({marks(chunk)})", chunk)


def rebuild(connection: sqlite3.Connection) -> None:
    """Take in every part again."""
    connection.execute("DELETE FROM chat_texts WHERE part_id NOT IN (SELECT id FROM chat_parts)")
    connection.execute(f"INSERT OR IGNORE INTO chat_texts (part_id) SELECT id FROM chat_parts WHERE {SPEAKING}")
    connection.execute("INSERT INTO chat_search (chat_search) VALUES ('rebuild')")


def squeeze(connection: sqlite3.Connection, transaction: Callable[[], AbstractContextManager[None]]) -> None:
    """Give back the space of what was taken out: until segments are merged, the index only notes that it is gone."""
    pages, changed = -MERGED, 2
    while changed >= 2:  # below that there was nothing to merge, says FTS5
        before = connection.total_changes
        with transaction():
            connection.execute("INSERT INTO chat_search (chat_search, rank) VALUES ('merge', ?)", (pages,))
        changed = connection.total_changes - before if pages > 0 else 2
        pages = MERGED


def _snippet(connection: sqlite3.Connection, query: str, number: int) -> str:
    row = connection.execute(_SNIPPET, (query, number)).fetchone()
    text = str(row[0] or "") if row else ""
    if len(text) <= SNIPPET_CHARACTERS:
        return text
    start = max(0, min(text.find(FOUND) - SNIPPET_CHARACTERS // 4, len(text) - SNIPPET_CHARACTERS))
    return text[start : start + SNIPPET_CHARACTERS]

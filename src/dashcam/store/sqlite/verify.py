"""Checking a store: everything that is known by its hash is hashed again.

Needs nothing but a reader; each finding is one sentence.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from hashlib import sha256

from dashcam.contracts.call import OTLP
from dashcam.contracts.content import EMPTY_CONTEXT, digest_of, prefix_digests
from dashcam.store.sqlite.contents import known_contents, unpacked
from dashcam.store.sqlite.contexts import WIDTH, Row, Walk, split

_WHOLE = "SELECT rowid FROM contexts WHERE parent IS NULL ORDER BY rowid"
# Each context whose parent is missing, and all that hang on it; UNION ends where a circle would not.
_CUT_OFF = """
WITH RECURSIVE below (digest, missing) AS (
  SELECT digest, parent FROM contexts
  WHERE parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM contexts AS p WHERE p.digest = contexts.parent)
  UNION
  SELECT c.digest, NULL FROM below JOIN contexts AS c ON c.parent = below.digest
)
SELECT CAST(digest AS BLOB), CAST(missing AS BLOB) FROM below
"""
# What a call names, its column, and where that is to be found, in small letters.
_NAMED = (
    ("context", "context_digest", "SELECT lower(hex(digest)) FROM contexts"),
    ("system prompt", "system_prompt_digest", "SELECT digest FROM system_prompts"),
    ("tool catalog", "tool_catalog_digest", "SELECT digest FROM tool_catalogs"),
    ("answer", "output_digest", "SELECT lower(hex(digest)) FROM contents"),
    ("envelope", "envelope_digest", "SELECT lower(hex(digest)) FROM contents"),
)


def verify_contents(connection: sqlite3.Connection) -> Iterator[str]:
    """Every finding in contents, prompts, catalogs, contexts and what model calls name of them."""
    yield from _verify_bodies(connection)
    yield from _verify_texts(connection, "system_prompts", "System prompt")
    yield from _verify_texts(connection, "tool_catalogs", "Tool catalog")
    yield from _verify_contexts(connection)
    yield from _verify_calls(connection)


def _verify_bodies(connection: sqlite3.Connection) -> Iterator[str]:
    for digest, stored, packed, size in connection.execute(
        "SELECT CAST(digest AS BLOB), CAST(body AS BLOB), packed, size FROM contents ORDER BY rowid"
    ):
        name = f"Content {digest.hex()}"
        try:
            body = unpacked(stored) if packed else stored
        except zlib.error as error:
            yield f"{name} can't be unpacked: {error}."
            continue
        if digest_of(body) != digest:
            yield f"{name} has changed: its bytes hash to {digest_of(body).hex()}."
        elif len(body) != size or packed not in (0, 1):
            yield f"{name} is noted with {size} bytes (packed: {packed}) and has {len(body)}."


def _verify_texts(connection: sqlite3.Connection, table: str, noun: str) -> Iterator[str]:
    query = f"SELECT CAST(digest AS BLOB), CAST(body AS BLOB) FROM {table} ORDER BY rowid"
    for digest, body in connection.execute(query):
        if sha256(body).hexdigest().encode() != digest:
            yield f"{noun} {_shown(digest)} has changed: its text hashes to {sha256(body).hexdigest()}."


def _verify_contexts(connection: sqlite3.Connection) -> Iterator[str]:
    """Parents first, hashing on from what parent and child share, so that a chain costs what it holds."""
    walk = Walk(connection)
    prefixes = [EMPTY_CONTEXT]
    sound: list[bool] = []
    seen = set()
    # Row numbers, not an open cursor: a reader of this generator may stop anywhere and leave nothing behind.
    for row in walk.below(row_id for (row_id,) in connection.execute(_WHOLE).fetchall()):
        seen.add(row.id)
        del prefixes[walk.same + 1 :]
        prefixes += prefix_digests(walk.messages[len(prefixes) - 1 :], prefixes[-1])[1:]
        faults = list(_faults(connection, walk, row))
        depth = len(walk.path) - 1
        del sound[depth:]
        sound.append(prefixes[-1] == row.digest)
        if not sound[-1]:
            of_parent = depth and not sound[-2]
            faults.append("its parent is damaged" if of_parent else f"its messages hash to {prefixes[-1].hex()}")
        yield from (f"Context {row.digest.hex()} is not sound: {fault}." for fault in faults)
    yield from _verify_unreached(connection, seen)


def _faults(connection: sqlite3.Connection, walk: Walk, row: Row) -> Iterator[str]:
    """What one row says of itself that doesn't hold."""
    held = len(row.middle) // WIDTH
    change = walk.path[-1][1]
    before = len(walk.messages) - change.inserted - change.appended + len(change.removed)
    if len(row.middle) % WIDTH or not 0 <= row.appended <= (held if row.tail else 0):
        yield f"{len(row.middle)} bytes with {row.appended} appended are no list of digests"
    if min(row.head, row.tail) < 0 or row.head + row.tail > before:
        yield f"it keeps {row.head} and {row.tail} messages of a list of {before}"
    if row.length != len(walk.messages):
        yield f"its length is noted as {row.length} and is {len(walk.messages)}"
    since = walk.path[-2][0].since + max(1, held) if row.parent is not None else 0
    if row.since != since:
        yield f"its links are noted to hold {row.since} digests and hold {since}"
    digests = split(row.middle)
    missing = set(digests) - known_contents(connection, digests)
    yield from (f"it names the content {digest.hex()}, which is missing" for digest in sorted(missing))


def _verify_unreached(connection: sqlite3.Connection, seen: set[int]) -> Iterator[str]:
    """Contexts that hang on no whole list: below a missing parent, or in a circle."""
    (total,) = connection.execute("SELECT count(*) FROM contexts").fetchone()
    if total == len(seen):
        return
    cut_off = set()
    for digest, missing in connection.execute(_CUT_OFF):
        cut_off.add(digest)
        why = f"its parent {missing.hex()} is missing" if missing else "one that it comes from is missing"
        yield f"Context {digest.hex()} can't be rebuilt: {why}."
    for row_id, digest in connection.execute("SELECT rowid, CAST(digest AS BLOB) FROM contexts ORDER BY rowid"):
        if row_id not in seen and digest not in cut_off:
            yield f"Context {digest.hex()} can't be rebuilt: its parents form a circle."


_IN_SPANS = ("context_digest", "output_digest")  # of calls that came as spans, and there they are checked


def _verify_calls(connection: sqlite3.Connection) -> Iterator[str]:
    for noun, column, known in _NAMED:
        query = (
            f"SELECT CAST(trace_id AS BLOB), step, CAST({column} AS BLOB) FROM model_calls"
            f" WHERE {column} IS NOT NULL AND NOT ({column in _IN_SPANS} AND wire IS '{OTLP}')"
            f" AND {column} NOT IN ({known}) ORDER BY trace_id, step"
        )
        for trace_id, step, digest in connection.execute(query):
            where = f"Trace {_shown(trace_id)}, step {step}"
            yield f"{where}: the call names the {noun} {_shown(digest)}, which is missing."


def _shown(text: bytes) -> str:
    """Text that may be damaged. Everything here is read as bytes: SQLite can't decode what is no UTF-8."""
    return text.decode(errors="backslashreplace")

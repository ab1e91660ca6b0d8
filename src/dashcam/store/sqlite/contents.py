"""Layer 2: contents, system prompts and tool catalogs, each kept once under its digest.

Every function works inside the transaction that the caller holds.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from typing import TypeVar

from dashcam.contracts.content import digest_of
from dashcam.errors import ContentNotFound, StoreError
from dashcam.store.sqlite.statements import insert_rows

CHUNK = 500  # digests a look-up
PACK_BEYOND = 512  # bytes
PACK_GAIN = 0.9  # of its size at most, or unpacking costs more than it saves
_CRC = 4  # bytes
_HEX = 64  # digits of a digest
_BEGINNING = 8  # of them, that may stand for all

_T = TypeVar("_T")


def put_contents(connection: sqlite3.Connection, bodies: Iterable[bytes]) -> int:
    """Keep every body; return how many were new. A repeated one adds nothing."""
    return put_digested(connection, ((digest_of(body), body) for body in bodies))


def put_digested(connection: sqlite3.Connection, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """The same for (digest, body), where the caller has hashed already."""
    new = 0
    for chunk in _chunks(pairs):
        unique = dict(chunk)
        missing = unique.keys() - known_contents(connection, unique)
        rows = [(digest, *_stored(body), len(body)) for digest, body in unique.items() if digest in missing]
        insert_rows(connection, "INSERT INTO contents (digest, body, packed, size)", rows)
        new += len(rows)
    return new


def bodies(connection: sqlite3.Connection, digests: Iterable[bytes]) -> dict[bytes, bytes]:
    """The bodies of those digests that are known."""
    found: dict[bytes, bytes] = {}
    for chunk in _chunks(digests):
        # As a blob whatever it is: text that was damaged can't be decoded.
        query = f"SELECT digest, CAST(body AS BLOB), packed FROM contents WHERE digest IN ({marks(chunk)})"
        for digest, stored, packed in connection.execute(query, chunk):
            try:
                found[digest] = unpacked(stored) if packed else stored
            except zlib.error as error:
                raise damaged(connection, f"Content {digest.hex()}") from error
    return found


def known_contents(connection: sqlite3.Connection, digests: Iterable[bytes]) -> set[bytes]:
    """Which of these are there."""
    known: set[bytes] = set()
    for chunk in _chunks(digests):
        query = f"SELECT digest FROM contents WHERE digest IN ({marks(chunk)})"
        known.update(digest for (digest,) in connection.execute(query, chunk))
    return known


def put_system_prompt(connection: sqlite3.Connection, text: str, at: int) -> str:
    """Keep a system prompt; return its digest in hex. `created_at` is the first time it was seen."""
    return _put_text(connection, "system_prompts", text, at)


def put_tool_catalog(connection: sqlite3.Connection, text: str, at: int) -> str:
    """Keep a tool catalog as sent, in the order sent; return its digest in hex."""
    return _put_text(connection, "tool_catalogs", text, at)


def system_prompt(connection: sqlite3.Connection, digest: str) -> str:
    return _text(connection, "system_prompts", digest)


def tool_catalog(connection: sqlite3.Connection, digest: str) -> str:
    return _text(connection, "tool_catalogs", digest)


def unpacked(stored: bytes) -> bytes:
    """What was packed; raises zlib.error if a bit of it has changed.

    The CRC is over the packed bytes: a zlib stream has bits that no reader looks at, and those are
    damage to the file as well. A reader that knows only zlib ignores what comes after the stream.
    """
    stream, check = stored[:-_CRC], stored[-_CRC:]
    if zlib.crc32(stream).to_bytes(_CRC, "big") != check:
        raise zlib.error("the packed bytes don't match their CRC-32")
    return zlib.decompress(stream)


def marks(values: list[bytes]) -> str:
    return ",".join("?" * len(values))


def damaged(connection: sqlite3.Connection, what: str) -> StoreError:
    return StoreError(f"{what} in {file_of(connection)} is damaged. See what else is with: dashcam verify")


def file_of(connection: sqlite3.Connection) -> str:
    """The file of this connection, for messages."""
    return str(connection.execute("PRAGMA database_list").fetchone()[2]) or "memory"


def _stored(body: bytes) -> tuple[str | bytes, int]:
    """As text where it is text, so that the sqlite3 command shows it; packed where that pays."""
    if len(body) >= PACK_BEYOND:
        stream = zlib.compress(body, 1)
        packed = stream + zlib.crc32(stream).to_bytes(_CRC, "big")
        if len(packed) <= len(body) * PACK_GAIN:
            return packed, 1
    try:
        # SQLite's own functions and its command end a text at NUL.
        return (body if b"\0" in body else body.decode()), 0
    except UnicodeDecodeError:
        return body, 0


def _put_text(connection: sqlite3.Connection, table: str, text: str, at: int) -> str:
    digest = sha256(text.encode()).hexdigest()
    connection.execute(
        f"INSERT INTO {table} (digest, body, created_at) VALUES (?, ?, ?) ON CONFLICT (digest) DO UPDATE "
        "SET created_at = excluded.created_at WHERE excluded.created_at < created_at",
        (digest, text, at),
    )
    return digest


def _text(connection: sqlite3.Connection, table: str, digest: str) -> str:
    """The text with this digest, or with one that begins so, where no other does."""
    query = f"SELECT CAST(body AS BLOB) FROM {table} WHERE digest >= ? AND digest <= ? LIMIT 2"
    digest = digest.lower()
    end = digest if len(digest) == _HEX else digest + "g"  # no digit of a digest comes after it
    rows = connection.execute(query, (digest, end)).fetchall() if len(digest) >= _BEGINNING else []
    if len(rows) != 1:
        raise ContentNotFound(digest, file_of(connection))
    (row,) = rows
    try:
        return bytes(row[0]).decode()
    except UnicodeDecodeError as error:
        raise damaged(connection, f"The text {digest}") from error


def _chunks(values: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(values)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
